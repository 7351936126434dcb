package fuse

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// Cluster is the nodes that one kernel computes.
type Cluster struct {
	Nodes []*graph.Node // in graph order

	// Frame is the frame of all nodes, and Reads the values that each node
	// reads, by operand: for a view, the value that it shows. Both are set for
	// clusters of several nodes.
	Frame Frame
	Reads [][]*graph.Value

	// Lockstep means that each node takes a row before the next node does.
	Lockstep bool
	// Batch means that the nodes do not depend on each other, and that each runs
	// over a frame of its own.
	Batch bool

	// Head is the node that makes the tiles with which the others go on; nil if
	// there is none.
	Head *graph.Node
	// Sums are the nodes that sum rows which the cluster writes.
	Sums []*graph.Node
	// Raw is the number of the output in whose memory the head computes its first
	// output; -1 if there is no head.
	Raw int

	// In are the values that the cluster reads from outside, Out those that it
	// writes to memory, Inner those that live only inside. In and Out of a single
	// node are the node's own; otherwise they list each value once, and no view.
	In, Out, Inner []*graph.Value
	// Alias lists, per output, the inputs whose memory it may take over once
	// nothing else reads them.
	Alias [][]int

	// When are the guards of all nodes. Where one is not met, nothing reads what the cluster
	// would write: a device skips it, and leaves its outputs as they are.
	When []graph.Guard
}

// Single makes a cluster of one node.
func Single(n *graph.Node) *Cluster {
	c := &Cluster{Nodes: []*graph.Node{n}, Raw: -1, In: n.In, Out: n.Out, Alias: make([][]int, len(n.Out))}
	if a, ok := n.Op.(graph.Aliaser); ok {
		for o, j := range a.Alias() {
			if j >= 0 && o < len(c.Alias) {
				c.Alias[o] = []int{j}
			}
		}
	}
	if graph.Maps(n) {
		c.Alias[0] = []int{0, 1}[:len(n.In)]
	}
	return c
}

// Name is the cluster's ops, the head first: "matmul+add+relu", or "26 adam".
func (c *Cluster) Name() string {
	var names []string
	if c.Batch {
		count := map[string]int{}
		for _, n := range c.Nodes {
			count[n.Op.Kind()]++
		}
		for _, kind := range slices.Sorted(maps.Keys(count)) {
			names = append(names, fmt.Sprintf("%d %s", count[kind], kind))
		}
		return strings.Join(names, "+")
	}
	if c.Head != nil {
		names = append(names, c.Head.Op.Kind())
	}
	for _, n := range c.Nodes {
		if n != c.Head {
			names = append(names, n.Op.Kind())
		}
	}
	return strings.Join(names, "+")
}

// Describe names the cluster for an error: its config line, layer and ops.
func (c *Cluster) Describe() string {
	ops, n := c.Name(), c.Nodes[0]
	if len(c.Nodes) == 1 {
		ops = graph.OpString(n.Op)
	}
	return Describe(n, ops)
}

// Describe puts a node's config line and layer before a text about it.
func Describe(n *graph.Node, text string) string {
	if n.Layer == nil {
		return text
	}
	if pos := n.Layer.Pos.String(); pos != "" {
		return fmt.Sprintf("%s: %v: %s", pos, n.Layer, text)
	}
	return fmt.Sprintf("%v: %s", n.Layer, text)
}

// Cost is the arithmetic of all nodes, and the bytes that enter or leave the
// cluster.
func (c *Cluster) Cost() graph.Cost {
	var cost graph.Cost
	for _, n := range c.Nodes {
		of := n.Cost()
		cost.Flops += of.Flops
		cost.Bytes += of.Bytes
	}
	if len(c.Nodes) == 1 {
		return cost
	}
	cost.Bytes = 0
	for _, v := range slices.Concat(c.In, c.Out) {
		cost.Bytes += v.Meta.Bytes()
	}
	return cost
}

// writes tells whether a value needs memory though nobody outside reads it. That
// is so for values that go from row to row, for unread outputs of updates and
// heads, and for summed values.
func (k *Cluster) writes(it *item, v *graph.Value) bool {
	if k.Batch || k.Lockstep || it.node == k.Head && v.Out > 0 {
		return true
	}
	for i, n := range k.Nodes {
		if slices.Contains(k.Sums, n) && slices.Contains(k.Reads[i], v) {
			return true
		}
	}
	return false
}

// chooseRaw chooses the output in whose memory the head computes: its own, or the
// first output that is written after the last node that reads the head's.
func (k *Cluster) chooseRaw() {
	if k.Head == nil {
		return
	}
	raw := k.Head.Out[0]
	if k.Raw = slices.Index(k.Out, raw); k.Raw >= 0 {
		return
	}
	last := k.LastReader(raw)
	for o, v := range k.Out {
		if v.Node != k.Head && !slices.Contains(k.Sums, v.Node) && slices.Index(k.Nodes, v.Node) >= last {
			k.Raw = o
			return
		}
	}
	panic(fmt.Sprintf("BUG: no output of %s comes after its head", k.Name()))
}

// LastReader is the position in Nodes of the last node that reads v, -1 for none.
func (k *Cluster) LastReader(v *graph.Value) int {
	last := -1
	for i, reads := range k.Reads {
		if slices.Contains(reads, v) {
			last = i
		}
	}
	return last
}

// findAliases lists, per output, the inputs that each tile has read, element by
// element, before it writes the output. The head's inputs are not among them, as
// other tiles read them too. The output Raw has none, as the head computes there.
func (k *Cluster) findAliases() {
	k.Alias = make([][]int, len(k.Out))
	if k.Batch || k.Lockstep {
		k.aliasNodes()
		return
	}
	for j, in := range k.In {
		last := k.LastReader(in)
		if !k.readFull(in) {
			continue
		}
		for o, v := range k.Out {
			if o != k.Raw && v.Node != k.Head && !slices.Contains(k.Sums, v.Node) && slices.Index(k.Nodes, v.Node) >= last {
				k.Alias[o] = append(k.Alias[o], j)
			}
		}
	}
}

// aliasNodes lists the aliases of each node itself, if no other node reads the
// input, or, in lockstep, no later node.
func (k *Cluster) aliasNodes() {
	readers := map[*graph.Value]int{}
	for _, reads := range k.Reads {
		for _, v := range reads {
			readers[v]++
		}
	}
	for i, n := range k.Nodes {
		for o, js := range Single(n).Alias {
			for _, j := range js {
				if v := k.Reads[i][j]; readers[v] == 1 || k.Lockstep && k.LastReader(v) == i {
					at := slices.Index(k.Out, n.Out[o])
					k.Alias[at] = append(k.Alias[at], slices.Index(k.In, v))
				}
			}
		}
	}
}

// readFull tells whether every node that reads v does so element by element.
func (k *Cluster) readFull(v *graph.Value) bool {
	for i, n := range k.Nodes {
		for o, in := range k.Reads[i] {
			if in != v {
				continue
			}
			if n == k.Head {
				return false
			}
			if s, ok := StretchOf(n.In[o].Meta.Shape, n.Out[0].Meta.Shape); !ok || !s.Full(k.Frame.Elems) {
				return false
			}
		}
	}
	return true
}
