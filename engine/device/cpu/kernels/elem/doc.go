// Package elem holds the kernels that compute each element by itself: arithmetic with
// broadcasting, activations and their gradients, dropout, copies and optimizer updates.
//
// Those whose elements come from the same place of every operand can run fused, with
// others on a strip of elements: [PointwiseOf] gives the function for that.
package elem
