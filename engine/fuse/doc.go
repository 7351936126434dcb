// Package fuse groups the nodes of a graph into clusters. A device can compute
// each cluster in one pass. The package only decides; it neither computes nor
// allocates.
//
// A table gives each op's [Class]; all else follows. Elementwise ops and
// broadcasts run over small tiles that stay in the cache. A product or the like
// may head a cluster: the other nodes go on with each tile of its result. Sums
// of rows take each row while it is in the cache. A loss and its gradient go
// over the logits in lockstep. Small updates run side by side.
//
// All nodes of a cluster run over one [Frame]: rows that lie in memory one after
// the other. A [Stretch] says how an operand fills the frame: element by element,
// a row for all rows, a value per row, or one value for all.
//
// [Cut] is pure: the same graph gives the same clusters. For every value that
// goes from one cluster to another it also tells why they are two.
//
// The types to know are [Cuts], [Cluster], [Edge], [Frame] and [Stretch].
//
// # Why may no outside node lie between the nodes of a cluster?
//
// A cluster runs as one, so a node between two of its nodes would have to run in its middle. Two groups are
// joined only if no path between them leads through a third. A node that writes to a donated input's memory
// counts as coming after all who read it, so that no cluster has to come both before and after another.
//
// # Why are nodes with other guards not fused?
//
// A cluster of a branch is skipped as one where the branch is not chosen (graph.Needs). A node with fewer
// guards would have to run then, and one with more would run for nothing, on inputs that were not computed.
//
// # Why do heads make tiles, and what may follow them?
//
// A product, a convolution, a norm, a gather and a pool's gradient are heads: each gives every tile of its
// output to an epilogue while the tile is in the cache. The same tile program runs there and over plain
// elements.
//
//   - Elementwise ops may follow any head.
//   - A sum of whole rows may follow a head whose tiles are whole rows. Each row's sum is kept, and
//     all are added in order at the end, as the sum's own kernel does.
//   - A norm stays apart: it needs whole rows, and the tiles of a product are not.
//   - A sum down columns stays apart: it needs its rows in one order, and tiles are cut to suit the
//     number of threads. Behind a product it would only save one reading of data that is mostly still
//     in the second-level cache.
//
// # Why may nothing behind a product touch another large tensor?
//
// A product's tiles are short pieces of rows. Its own output is in the cache by then, so a bias and an
// activation in place cost little. Another tensor would come from memory in short strides, which took
// longer than a separate pass over it. Convolutions and pools have long rows, and gain.
//
//	gpt-nano, epilogues of products  ms a step
//	that touch other tensors, too    17.5
//	none                             16.7
//	in place only                    16.4
//
// # Why do a loss and its gradient run in lockstep?
//
// Logits are large (51 MB in gpt2), and three kernels read them: the loss, the count of right answers and
// the gradient. All three cut rows in the same way, so one loop runs them chunk after chunk, and the logits
// come from memory once. The gradient may take the logits' memory: a chunk writes only its own rows, after
// all three have read them.
//
// # Why are small updates fused side by side?
//
// gpt-nano has fifty updates of biases, norms and small matrices. Each has only a few chunks, and ends by
// waiting for its last thread. As chunks of one loop they took 0.43 ms instead of 0.61. Large updates fill
// the threads alone; they stay apart so that each can run as soon as its own gradient is there.
//
// # Why are some ops that could be fused kept apart?
//
// A product of matrices makes small tiles, and so parts of rows. Ops that go on with its tiles read and
// write their own tensors by parts of rows, too, which costs about 8 ns for each KiB; a pass of its own
// over whole rows costs about 5. Fused, an op saves writing one tensor and reading it again. So with one
// such tensor fusing is cheaper (8 against 10), with two it is not (16 against 10). Measured on one core
// (AVX-512): two elementwise ops with operands of their own behind a product of 128 and of 256 rows take 6
// % longer fused, at 32 rows 2 % less. `trainer plan --clusters` shows both costs. The bits are the same
// either way.
package fuse
