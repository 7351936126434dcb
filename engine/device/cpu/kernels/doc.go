// Package kernels computes the ops on a CPU: a float32 kernel for every op of
// the table, over all threads of a [Pool], on the CPU's vectors ([Level]).
// Products, and with them convolution and attention, have their own inner
// kernels; most of the rest is made of the functions of package vec.
//
// [New] finds a node's kernel under a type-erased name, such as
// "matmul(f32,f32)->f32", and binds the node's attributes and shapes. What
// remains for [Kernel.Run] is to fill in the addresses ([Args]) and compute;
// it allocates nothing. [NewCluster] does the same for nodes that are computed in
// one pass: tile programs, alone or as the [Epilogue] of a kernel that goes on
// with pieces of its output while they are in the cache.
//
// Results are the same bits for every number of threads at one level. Work is
// cut into chunks by shapes alone, each output element is summed in one order,
// and where a single sum is shared, the partial sums of fixed chunks are added
// in chunk order. Sums of losses, of statistics and of squares are in float64.
// NaN and infinities follow IEEE 754: relu(NaN) is NaN, and so is the maximum
// of a window that holds one.
//
// A chunk of a product that packs its operands borrows a workspace of about
// 820 KiB, of which as many exist as threads ever packed at the same time.
// Attention keeps a head's packed keys and values there too, and a convolution with
// AMX up to 700 KiB of split images.
//
// The types to know are [Kernel], [Args], [Pool], [Task] and [Level].
package kernels
