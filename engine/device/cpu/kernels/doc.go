// Package kernels computes the ops on a CPU: a float32 kernel for every op of the table,
// over all threads of a [work.Pool], with the CPU's vectors ([isa.ISA]).
//
// [New] finds a node's kernel under a type-erased name, such as "matmul(f32,f32)->f32",
// and binds the node's attributes and shapes. What remains for [work.Kernel].Run is to
// fill in the addresses ([work.Args]) and compute; it allocates nothing. [NewCluster]
// does the same for nodes that are computed in one pass: pointwise programs, alone or as
// the [work.Epilogue] of a kernel that goes on with pieces of its output while they are in
// the cache.
//
// This package is the face: it joins the tables of the packages below it and makes
// clusters. From the bottom up:
//
//	asm       assembly, written by the generator in gen
//	vec       functions over arrays, a table for each instruction set
//	isa       the instruction sets of a CPU
//	work      kernels, tasks, pools, arguments, epilogues, tables
//	strided   tensors read with strides
//	dropout   which elements dropout keeps
//	elem      elementwise ops, copies, optimizers
//	pooling   pools of planes
//	product   products of matrices, convolutions, attention
//	rows      reductions, softmax, losses, norms, lookups
//
// Results are the same bits for every number of threads with one instruction set. Work
// is cut into chunks by shapes alone, each output element is summed in one order, and
// where a single sum is shared, the partial sums of fixed chunks are added in chunk
// order. Sums of losses, of statistics and of squares are in float64. NaN and infinities
// follow IEEE 754: relu(NaN) is NaN, and so is the maximum of a window that holds one.
//
// # Why do kernels not know which thread runs a chunk?
//
// Only products want memory per thread. A short list of workspaces, last in, first out, gives it to them: a
// thread mostly gets the one it has just returned, still in its cache.
package kernels
