// Package console is the command's standard output and standard error.
//
// A [Stream] is one of the two; its failed write is an error of the command. A
// [BestEffort] prints to one without that: training goes on when nobody reads
// its output any more. A [Prose] breaks lines between words, where they go to a
// terminal; [Room] is what a line of a table there may take.
package console
