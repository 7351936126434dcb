// Package cli holds the conventions that all commands share: help, exit codes, mistakes
// on the command line, the number of arguments, groups of commands, a closed standard
// output.
package cli
