package fuse

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// cutter is the state of Cut.
type cutter struct {
	graph  *graph.Graph
	stop   *stop.Check // passes end early once it is done
	items  []*item     // the nodes, without views
	values *graph.Table[value]
	cyclic bool // a donated input is read too late; planning reports that later
	search int  // number of the last search
	looks  int  // at values and groups, for tests
}

// value says who computes a value, and whether the graph keeps it.
type value struct {
	maker  *item        // computes it, or the value that it is a view of; nil for inputs of the graph and their views
	shown  *graph.Value // if it is a view, the value that it is a view of, which is none itself; else nil
	output bool         // it, or a view of it, is an output of the graph
}

// newCutter makes a group of every node that is no view.
func newCutter(g *graph.Graph, check *stop.Check) *cutter {
	c := &cutter{graph: g, stop: check, values: graph.NewTable[value](g)}
	needs := graph.NeedsOf(g)
	for i, n := range stop.Each(check, g.Nodes) {
		if IsView(n) {
			*c.values.At(n.Out[0]) = value{maker: c.producer(n.In[0]), shown: c.root(n.In[0])}
			continue
		}
		it := newItem(n, i)
		it.when = needs.Guards(i)
		it.group = &group{first: i, items: []*item{it}, frame: it.frame}
		if it.rule.class == Head {
			it.group.head = it
		}
		c.items = append(c.items, it)
		for _, v := range n.Out {
			c.values.At(v).maker = it
		}
	}
	for _, v := range g.Outputs {
		c.values.At(c.root(v)).output = true
	}
	return c
}

// link finds the items that must come after others: readers after writers, and
// writers of a donated input after all readers of it and all nodes that may end
// the step.
func (c *cutter) link(alias []int) {
	after := func(first, second *item) {
		if first != nil && first != second && first.linked != second {
			first.linked = second
			first.after, second.before = append(first.after, second), append(second.before, first)
		}
	}
	donated := c.donated(alias)
	var ends []*item
	for _, it := range stop.Each(c.stop, c.items) {
		if Ends(it.node) {
			ends = append(ends, it)
		}
		for _, v := range it.reads() {
			if users := donated[c.root(v)]; users != nil {
				*users = append(*users, it)
			}
			after(c.producer(v), it)
		}
	}
	for k, j := range stop.Each(c.stop, alias) {
		if j < 0 {
			continue
		}
		if writer := c.producer(c.graph.Outputs[k]); writer != nil {
			for _, first := range writer.before {
				first.linked = writer
			}
			for _, first := range append(*donated[c.graph.Inputs[j]], ends...) {
				after(first, writer)
			}
		}
	}
}

// donated has an empty list for each donated input.
func (c *cutter) donated(alias []int) map[*graph.Value]*[]*item {
	of := map[*graph.Value]*[]*item{}
	for _, j := range alias {
		if j >= 0 {
			of[c.graph.Inputs[j]] = new([]*item)
		}
	}
	return of
}

// root is the value that a view shows; the value itself if it is no view.
func (c *cutter) root(v *graph.Value) *graph.Value {
	c.looks++
	if of := c.values.At(v).shown; of != nil {
		return of
	}
	return v
}

// producer is the item that computes the root of v; nil for an input of the graph.
func (c *cutter) producer(v *graph.Value) *item {
	c.looks++
	return c.values.At(v).maker
}
