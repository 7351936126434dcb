// Package ref has a plain kernel for every op, in float64: the formula of the
// op as loops, written to be read and to be right, not to be fast. Tests hold
// gradients and the kernels of devices against it. Integers are int32.
//
// The types and functions to know are [Array], [Run] for one op and [Eval] for
// a graph.
package ref
