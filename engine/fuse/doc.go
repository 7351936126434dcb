// Package fuse groups the nodes of a graph into clusters, each of which a device
// can compute in one pass. It decides only; it neither computes nor allocates.
//
// A table gives each op's [Class]; everything else follows. Elementwise ops and
// broadcasts run over small tiles that stay in the cache. Products and the like
// may head a cluster: what follows goes on with each tile of their result. Sums
// of rows take each row while it is there. A loss and its gradient go over the
// logits in lockstep. Small updates run side by side.
//
// All of a cluster runs over one [Frame], rows of columns that lie in memory one
// after the other. Each operand of a node says how it lies in the frame
// ([Span]): element by element, a row for all rows, a value per row, one value
// for all.
//
// [Cut] is pure: the same graph gives the same clusters. It also says, of every
// value that goes from one cluster to another, why.
//
// The types to know are [Cuts], [Cluster], [Edge], [Frame] and [Span].
package fuse
