// Package shape describes tensors without their contents: by element type, by
// dimensions, and by metadata, which combines the two.
//
// The types to know are [DType], [Shape] and [Meta].
package shape
