package fuse

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// Cluster is nodes that one kernel computes.
type Cluster struct {
	Nodes []*graph.Node // in graph order

	// Of clusters of several nodes: what all run over, and per node and operand
	// the value that is read, seen through views.
	Frame Frame
	Reads [][]*graph.Value

	// Lockstep says that each node takes a row before the next node does.
	Lockstep bool
	// Batch says that the nodes do not depend on each other, and each runs over a
	// frame of its own.
	Batch bool

	// Head is the node that makes the tiles which the others go on with; nil if
	// there is none.
	Head *graph.Node
	// Sums are nodes that sum rows which the cluster writes.
	Sums []*graph.Node
	// Raw is the output in whose memory the head computes its first output; -1
	// without one.
	Raw int

	// In is what the cluster reads from outside, Out what it writes for others.
	// Of a single node they are the node's own; otherwise each value is there
	// once, and none is a view. Inner lives only inside.
	In, Out, Inner []*graph.Value
	// Alias lists, per output, the inputs whose memory it may take over once
	// nothing else reads them.
	Alias [][]int
}

// Single is a node as a cluster.
func Single(n *graph.Node) *Cluster {
	c := &Cluster{Nodes: []*graph.Node{n}, Raw: -1, In: n.In, Out: n.Out, Alias: make([][]int, len(n.Out))}
	if a, ok := n.Op.(graph.Aliaser); ok {
		for o, j := range a.Alias() {
			if j >= 0 && o < len(c.Alias) {
				c.Alias[o] = []int{j}
			}
		}
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

// Cost is the arithmetic of all nodes, and the bytes of what is read and
// written outside the cluster.
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

// clusters lists groups in an order in which they can run: the one that begins
// first in the graph goes first. Views follow what they show.
func (c *cutter) clusters() []*Cluster {
	before := c.count()
	var free groups
	for _, it := range c.items {
		if g := it.group; it == g.items[0] && g.missing == 0 {
			free = append(free, g)
		}
	}
	heap.Init(&free)
	var list []*Cluster
	views := c.viewsOf()
	list = append(list, views[nil]...)
	for len(free) > 0 {
		g := heap.Pop(&free).(*group)
		list = append(list, c.cluster(g))
		for _, it := range g.items {
			list = append(list, views[it]...)
		}
		for _, next := range before[g] {
			if next.missing--; next.missing == 0 {
				heap.Push(&free, next)
			}
		}
	}
	return list
}

// count lists the groups that read what each makes, and counts how many come
// before.
func (c *cutter) count() map[*group][]*group {
	next := map[*group][]*group{}
	counted := map[[2]*group]bool{}
	for _, it := range c.items {
		for _, v := range it.node.In {
			from := c.producer(v)
			if from == nil || from.group == it.group || counted[[2]*group{from.group, it.group}] {
				continue
			}
			counted[[2]*group{from.group, it.group}] = true
			next[from.group] = append(next[from.group], it.group)
			it.group.missing++
		}
	}
	return next
}

// viewsOf lists the views of what each item makes, and under nil those of inputs.
func (c *cutter) viewsOf() map[*item][]*Cluster {
	of := map[*item][]*Cluster{}
	for _, n := range c.graph.Nodes {
		if IsView(n) {
			of[c.producer(n.Out[0])] = append(of[c.producer(n.Out[0])], Single(n))
		}
	}
	return of
}

// cluster ends a group's growth.
func (c *cutter) cluster(g *group) *Cluster {
	if len(g.items) == 1 {
		return Single(g.items[0].node)
	}
	k := &Cluster{Frame: g.frame, Raw: -1, Lockstep: g.items[0].rule.class == Rows, Batch: g.items[0].rule.class == Small}
	if g.head != nil {
		k.Head = g.head.node
	}
	for _, it := range g.items {
		var reads []*graph.Value
		for _, v := range it.node.In {
			v = c.root(v)
			reads = append(reads, v)
			if p := c.made[v]; (p == nil || p.group != g) && !slices.Contains(k.In, v) {
				k.In = append(k.In, v)
			}
		}
		k.Nodes, k.Reads = append(k.Nodes, it.node), append(k.Reads, reads)
		if it.rule.class == Sum {
			k.Sums = append(k.Sums, it.node)
		}
	}
	for _, it := range g.items {
		for _, v := range it.node.Out {
			if c.leaves(it, v) || k.writes(it, v) {
				k.Out = append(k.Out, v)
			} else {
				k.Inner = append(k.Inner, v)
			}
		}
	}
	k.placeHead()
	k.findAliases()
	return k
}

// leaves tells whether v, which it makes, is read outside its group.
func (c *cutter) leaves(it *item, v *graph.Value) bool {
	if c.output[v] {
		return true
	}
	for _, r := range it.after {
		if r.group != it.group && slices.ContainsFunc(r.node.In, func(in *graph.Value) bool { return c.root(in) == v }) {
			return true
		}
	}
	return false
}

// writes tells whether a value needs memory though nobody outside reads it:
// what goes from row to row does, unread outputs of updates and heads, and what is
// summed.
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

// placeHead chooses the output in whose memory the head computes: its
// own, or the first that is written once nothing of the cluster reads it.
func (k *Cluster) placeHead() {
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

// findAliases lists, per output, the inputs that every tile has read, element by
// element, before it writes the output. The head's are read by other tiles,
// and where it computes nothing else can stand.
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

// aliasNodes lists what each node says itself, as far as no other node reads it,
// or none that comes later where nodes are in lockstep.
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
			if s, ok := SpanOf(n.In[o].Meta.Shape, n.Out[0].Meta.Shape); !ok || !s.Full(k.Frame.Elems) {
				return false
			}
		}
	}
	return true
}

// groups is a heap, the one that begins first on top.
type groups []*group

func (h groups) Len() int           { return len(h) }
func (h groups) Less(i, j int) bool { return h[i].first < h[j].first }
func (h groups) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *groups) Push(x any)        { *h = append(*h, x.(*group)) }
func (h *groups) Pop() any {
	n := len(*h) - 1
	g := (*h)[n]
	*h = (*h)[:n]
	return g
}

// Edges lists what goes from one cluster to another, in graph order.
func (c *Cuts) Edges() []Edge {
	if c.cutter == nil {
		return nil
	}
	return c.cutter.edges()
}

func (c *cutter) edges() []Edge {
	var edges []Edge
	for _, it := range c.items {
		for _, v := range it.node.In {
			if from := c.producer(v); from != nil && from.group != it.group {
				edges = append(edges, Edge{c.root(v), from.node, it.node, c.refusal(from.group, it.group)})
			}
		}
	}
	return edges
}
