// Package fuse groups the nodes of a graph into clusters, each of which a device
// can compute in one pass: elementwise ops and broadcasts over small tiles that
// stay in the cache, and products and the like followed by what is done to each tile
// of their result. It decides only; it neither computes nor allocates.
//
// All of a cluster runs over one [Frame], rows of columns that lie in memory one
// after the other. Each operand of a node says how it lies in the frame
// ([Span]): element by element, a row for all rows, a value per row, one value
// for all. A table gives each op's [Class]; everything else follows from
// classes, frames and spans.
//
// [Cut] is pure: the same graph gives the same clusters. It also says, of every
// value that goes from one cluster to another, why.
package fuse
