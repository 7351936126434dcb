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
//
// # Why does one text serve OpenCL and CUDA?
//
// Kernels are written in a dialect that a prelude of 20 macros turns into OpenCL C or CUDA C
// (`engine/device/gpu/gen/prelude.go`). So the kernels that a machine without a GPU tests, with PoCL and
// Oclgrind, are those that a GPU runs. The dialect leaves out what only one of the languages has, or what
// differs between drivers: vector types, atomics, subgroups, images, `half`, native functions. There is no
// device for CUDA yet; its kernels are there once there is one.
//
// # Why are there no vendor libraries of matrix products?
//
// They are fast, and choose an order of sums by device and size. Weights would depend on the device's model
// and on the library's version, a run could not go on elsewhere with the same bits, and CI could not check
// what users run. A product here adds in ascending order with one fused multiply-add each, for all tiles. A
// library, or tensor cores, would be another `Numerics`, which is part of a run's identity.
//
// # Why does a sum on a GPU have 64 lanes?
//
// The size of work groups is the driver's to choose, and a sum's order must not depend on it. So each sum
// is written for 64 lanes: lane v takes elements v, v + 64, …, and a tree adds the lanes. A work item
// computes as many lanes as the group needs.
//
// # How does a kernel on a GPU fail with a sentence?
//
// A kernel that meets a target that is no class writes the number of its call into a status word, and
// nothing else: all of its lanes write the same number, so no atomics are needed. Kernels write nothing
// once the word is set, so the memory stays as the failed kernel found it. The host reads the word at a
// launch's end, reads the one input back, and says what `cpu` says, with the first wrong row. A launch that
// does not fail pays four bytes.
//
// # Why does a GPU draw tokens with whole numbers?
//
// `cpu` adds probabilities in float64, which not all GPUs have, and float32 would draw another token now
// and then. Weights of 46 bits are added exactly, in any order, so a row is shared between lanes. The lists
// that top-k and top-p leave are found bit by bit, without sorting.
//
// # How does a GPU count and sort without atomics?
//
// Where an element goes is the number of those before it: counted per group, summed up over groups, and
// counted again with that sum as the start. So `nonzero` lists places in order, and a pass of the sort of
// `unique` keeps the order of equal digits. Eight passes over 4 bits each need no comparison, and the same
// launches for any contents: the host knows them when it plans.
//
// # Why do learning rates come from a table on a GPU?
//
// A schedule can be a Go function of the program's. Its rates for a run's steps are computed once, copied
// to the device, and are those of `cpu` to the bit.
//
// # Why do sums of GPU kernels not depend on tiles?
//
// Bits must be the same for every device and size of work groups. So the products of a sum go up one by
// one, each with a fused multiply-add, whatever tile computes them; other sums have 64 virtual lanes and a
// tree. A fused cluster computes the same expressions as its nodes, in registers, so fusing changes no bit.
// The price is that long sums of few numbers, such as gradients of weights over a large batch, keep few
// lanes busy. The gradient of a convolution's weights is therefore summed in parts, whose number follows
// from sizes alone.
//
// # Why is padding a zero for a GPU, and left out on the CPU?
//
// A tile has no room for exceptions: what a window reads outside is a zero, which is multiplied like any
// number. Only weights that are not finite tell the two apart: their products with padding are NaN.
//
// # Why does one kernel update eight tensors?
//
// An update has little to do, and starting a kernel costs more. OpenCL promises just 1024 bytes of
// arguments, enough for eight tensors of Adam; a table in the device's memory would have to be written
// whenever a buffer moves.
package gen
