// Package kernels computes the ops on a CPU: a float32 kernel for every op of
// the table, in plain Go, over all threads of a [Pool].
//
// [New] finds a node's kernel under a type-erased name, such as
// "matmul(f32,f32)->f32", and binds the node's attributes and shapes. What
// remains for [Kernel.Run] is to fill in the addresses ([Args]) and compute;
// it allocates nothing.
//
// Results are the same bits for every number of threads. Work is cut into
// chunks by shapes alone, each output element is summed in one order, and
// where a single sum is shared, the partial sums of fixed chunks are added in
// chunk order. Sums of losses, of statistics and of squares are in float64.
// NaN and infinities follow IEEE 754: relu(NaN) is NaN, and so is the maximum
// of a window that holds one.
//
// Products pack their operands on the stack of the goroutine that runs the
// chunk, about 112 KiB, so threads that stay keep a stack of that size.
//
// The types to know are [Kernel], [Args], [Pool] and [Task].
package kernels
