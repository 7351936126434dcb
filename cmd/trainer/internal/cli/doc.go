// Package cli holds the conventions that all commands share: exit codes, mistakes on
// the command line, the number of arguments, groups of commands.
package cli
