// Package recompute is pass 0 of a plan: it adds nodes to a graph that compute values a
// second time in the backward pass, so that the forward pass need not keep them.
//
// [Kind] names the values; [Kind.Apply] takes a graph and gives another one.
package recompute
