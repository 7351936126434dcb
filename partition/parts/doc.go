// Package parts belongs to pass 0 of a plan: it rewrites nodes that need more memory at once than a device
// has into several, each of which computes some samples, or some channels, of the results.
//
// [Choose] says which nodes; [Cuts.Apply] takes a graph and gives another one.
//
// # Which bits stay?
//
// All of them. A convolution, a pool or an elementwise op computes each sample by itself, so a node can be cut
// over the samples ([ops.BySamples]). The gradients of weights and biases are sums over samples, whose order
// must stay: they are cut over the channels ([ops.ByChannels]). The gradient of a dense layer's weight is cut over its
// rows, and these over the columns where the input that all rows read is large. Batch norm, whose statistics are such
// sums, has its results in parts over channels; nodes that are cut over samples read them tile by tile. What is neither
// stays whole, such as a loss.
// A reshape makes rows of one matrix of the positions of samples; its parts have all rows of the same samples.
// Where a kernel chooses by sizes how to compute, it goes by those of the whole node ([graph.Node.Whole]).
//
// # Where do tensors go meanwhile?
//
// The results of a node that is cut are tensors of their own, which nothing joins unless a whole node reads
// them. So a tensor that is larger than a device lies on the host in parts. Nodes that are cut over samples
// and follow each other run part by part: the first part goes through all of them, then the second one.
package parts
