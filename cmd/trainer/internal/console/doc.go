// Package console is the command's standard output and standard error.
//
// A [Stream] is one of the two. A [Progress] is a way to print to one that may
// fail without harm: training goes on when nobody listens any more.
package console
