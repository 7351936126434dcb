// Package rows holds the kernels that go through rows, columns or channels: reductions,
// softmax, losses, norms, and lookups in tables.
//
// Sums of many elements are in float64. Where a sum is shared among threads, its partial
// sums are those of fixed chunks and are added in order.
package rows
