// Package console is the command's standard output and standard error.
//
// A [Stream] is one of the two; its failed write is an error of the command. A
// [BestEffort] prints to one without that: training goes on when nobody reads
// its output any more.
package console
