// Package pieces is the beginning of pass 0 of a plan: it takes a graph and the names of ops that
// are to be on a device by themselves, and gives the graph with their blocks cut there. Later
// passes see the pieces as blocks.
//
// A block is cut in the order of its forward nodes: head:1 is before the first pinned op of the
// block head, head:2 between it and the second, and so on. An op is a piece of its own, and has its
// own name: that of its result, head.matmul. Its gradient goes with it, as each node of the
// backward pass is with the node that it differentiates.
//
// The order of the nodes is kept, so values go from a piece to itself or a later one, and gradients
// the other way. So each piece can be on another device, as blocks can.
package pieces
