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
package fuse
