// Package shape holds what is known of a tensor without its bytes: element
// type, dimensions and the metadata that combines the two. It also bridges to
// gorgonia's dense tensor, which is the host-side container at the edges of
// the runtime and never appears between a copy-in and a pull-back.
//
// The types to know are [DType], [Shape] and [Meta].
package shape
