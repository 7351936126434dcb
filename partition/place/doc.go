// Package place is pass 3 of a plan: it takes an index and the group of each block, and gives
// a [Placement], the group of every node and variable. A group is a stage, or one block while
// cuts are compared.
//
// [Nodes] places, in this order: forward nodes by their layers (layers.go), gradients where
// the node is that they are of, parameters where they are read, and the update where its
// variables are (updates.go). [MoveUnsupported] then moves numbers of the update to a device
// that runs them.
package place
