// Package ref has a plain kernel for every op, in float64: the op's formula as
// loops, written to be read and to be right rather than fast. Tests compare
// gradients and the kernels of devices with it. Integers are int32.
//
// The names to know are [Array], [Run] for one op and [Eval] for a graph.
package ref
