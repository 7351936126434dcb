// Package nodes is pass 1 of a plan: it takes a graph and gives an [Index], which answers the
// later passes' questions to it. Who reads a value, which sum it is a part of, which variable
// it assigns, what must run before an update: all are looked up, and found once.
//
// [New] refuses graphs that no plan can run, with [ErrGraph]. [Blocks] are the top-level
// layers. [Table] and [Marks] are maps and sets of IDs that are emptied in constant time.
package nodes
