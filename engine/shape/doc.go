// Package shape holds what is known of a tensor without its contents: element
// type, dimensions, and the metadata that combines the two.
//
// The types to know are [DType], [Shape] and [Meta].
package shape
