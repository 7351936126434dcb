package fuse

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// mostSummed is the most elements of a row that can be summed while it is in the
// cache.
const mostSummed = 1 << 12

// item is a node, with its rule and its place among the others.
type item struct {
	node   *graph.Node
	at     int // position in the graph
	rule   rule
	frame  Frame
	when   []graph.Guard
	after  []*item // those that must run after it
	before []*item // those that must run before it
	group  *group
	linked *item // the last one that was added to after

	// pre is the item's number in a depth-first walk along after. The items that
	// the walk met first by way of this one have numbers below end. They run
	// after it.
	pre, end int
}

// newItem applies the table of rules. A node that does not fit its class stays
// alone.
func newItem(n *graph.Node, at int) *item {
	it := &item{node: n, at: at, rule: ruleOf(n)}
	if it.rule == (rule{}) {
		it.alone("has no rule")
	}
	switch it.rule.class {
	case Map:
		it.asMap()
	case Head:
		s := n.Out[0].Meta.Shape
		it.frame = Frame{Elems: s.Elems(), cols: s[len(s)-it.rule.row:].Elems()}
		if n.Out[0].Meta.DType != shape.Float32 {
			it.alone(fmt.Sprintf("is of %v", n.Out[0].Meta.DType))
		}
	case Sum:
		it.asSum()
	case Rows:
		x := n.In[0].Meta.Shape
		it.frame = Frame{Elems: x.Elems(), cols: x.Dim(-1)}
	case Small:
		it.frame.Elems = n.Out[0].Meta.Elems()
	}
	if it.frame.Elems == 0 && it.rule.class != Solo {
		it.alone("has no elements")
	}
	return it
}

// reads lists what the node reads: its inputs, and the numbers of its guards.
func (it *item) reads() []*graph.Value {
	if len(it.when) == 0 {
		return it.node.In
	}
	all := slices.Clone(it.node.In)
	for _, guard := range it.when {
		all = append(all, guard.Value)
	}
	return all
}

// alone keeps the item from being fused, for a reason.
func (it *item) alone(why string) { it.rule = rule{why: why} }

// asMap finds the frame of an elementwise node: the output's, in rows over which
// all operands are stretched.
func (it *item) asMap() {
	out := it.node.Out[0].Meta
	it.frame = Frame{Elems: out.Elems()}
	if out.DType != shape.Float32 {
		it.alone(fmt.Sprintf("is of %v", out.DType))
		return
	}
	for _, v := range it.node.In {
		s, ok := StretchOf(v.Meta.Shape, out.Shape)
		if ok {
			it.frame, ok = it.frame.with(s)
		}
		if !ok {
			it.alone(fmt.Sprintf("stretches %v to %v, which is not by rows", v.Meta.Shape, out.Shape))
			return
		}
	}
}

// asSum finds the rows that a node sums: the output has one number for each row, or
// for each of several rows at equal distances.
func (it *item) asSum() {
	in := it.node.In[0].Meta
	s, ok := StretchOf(it.node.Out[0].Meta.Shape, in.Shape)
	if !ok || s.Inner == 1 || s.Inner > mostSummed || s.Count <= 1 {
		it.alone("is known only at the end of a sum")
		return
	}
	it.frame = Frame{Elems: in.Elems(), cols: s.Inner}
}

// group is a cluster that grows.
type group struct {
	first   int // position of its first node in the graph
	items   []*item
	frame   Frame
	head    *item    // nil if there is none
	rank    int64    // below the rank of every group that must run after it
	mark    int      // number of the search that met it last
	missing int      // groups that must run before it; set by rank and by count
	readers []*group // groups that read its values, each once; set by count
}

// next goes over the groups that must run after g, some of them repeatedly.
func (g *group) next(yield func(*group) bool) {
	for _, it := range g.items {
		for _, r := range it.after {
			if r.group != g && !yield(r.group) {
				return
			}
		}
	}
}

// previous goes over the groups that must run before g, some of them repeatedly.
func (g *group) previous(yield func(*group) bool) {
	for _, it := range g.items {
		for _, r := range it.before {
			if r.group != g && !yield(r.group) {
				return
			}
		}
	}
}

// precedes tells whether the walk that numbered the items came from g to b. If it
// did not, b may still run after g.
func (g *group) precedes(b *group) bool {
	for _, x := range g.items {
		for _, y := range b.items {
			if x.pre < y.pre && y.pre < x.end {
				return true
			}
		}
	}
	return false
}

// groups is a heap; the group that begins first in the graph is on top.
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
