// Package gen writes kernels as source text, in a dialect that a prelude makes
// OpenCL C or CUDA C. It knows no driver.
//
// A kernel's structure is in its text, sizes are arguments, so graphs with other
// sizes share kernels. All memory is one range of bytes; an argument is an offset.
//
// [Cluster] writes the kernels of nodes that a plan has fused: elementwise ones stay in
// registers behind the node that heads them, and small updates share a kernel.
//
// Results do not depend on the size of work groups, on tiles or on fusing: sums
// have a fixed order, with products contracted to fused multiply-adds where the text
// says so and nowhere else. There are no atomics.
//
// The types to know are [Call] and [Arg].
//
// The files use each other downwards: cluster; table; the files of ops; chain;
// elementwise; failure; writer; lanes; gen; prelude.
package gen
