package fuse

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// cutter is the state of Cut.
type cutter struct {
	graph  *graph.Graph
	stop   *stop.Check                   // passes end early once it is done
	items  []*item                       // the nodes, without views
	made   map[*graph.Value]*item        // the item that computes a value; nil for inputs of the graph
	views  map[*graph.Value]*graph.Value // the value that a view shows, which is no view itself
	output map[*graph.Value]bool         // values that outputs of the graph are or show
	cyclic bool                          // a donated input is read too late; planning reports that later
	search int                           // number of the last search
	looks  int                           // at values and groups, for tests
}

// newCutter makes a group of every node that is no view.
func newCutter(g *graph.Graph, check *stop.Check) *cutter {
	c := &cutter{graph: g, stop: check, made: map[*graph.Value]*item{}, views: map[*graph.Value]*graph.Value{}, output: map[*graph.Value]bool{}}
	for i, n := range stop.Each(check, g.Nodes) {
		if IsView(n) {
			c.views[n.Out[0]] = c.root(n.In[0])
			continue
		}
		it := newItem(n, i)
		it.group = &group{first: i, items: []*item{it}, frame: it.frame}
		if it.rule.class == Head {
			it.group.head = it
		}
		c.items = append(c.items, it)
		for _, v := range n.Out {
			c.made[v] = it
		}
	}
	for _, v := range g.Outputs {
		c.output[c.root(v)] = true
	}
	return c
}

// link finds the items that must come after others: readers after writers, and
// writers of a donated input after all readers of it and all nodes that may end
// the step.
func (c *cutter) link(alias []int) {
	linked := map[[2]*item]bool{}
	after := func(first, second *item) {
		if link := [2]*item{first, second}; first != nil && first != second && !linked[link] {
			linked[link] = true
			first.after, second.before = append(first.after, second), append(second.before, first)
		}
	}
	users := map[*graph.Value][]*item{}
	var ends []*item
	for _, it := range stop.Each(c.stop, c.items) {
		if Ends(it.node) {
			ends = append(ends, it)
		}
		for _, v := range it.node.In {
			users[c.root(v)] = append(users[c.root(v)], it)
			after(c.producer(v), it)
		}
	}
	for k, j := range stop.Each(c.stop, alias) {
		if j < 0 {
			continue
		}
		if writer := c.producer(c.graph.Outputs[k]); writer != nil {
			for _, first := range append(users[c.graph.Inputs[j]], ends...) {
				after(first, writer)
			}
		}
	}
}

// root is the value that a view shows; the value itself if it is no view.
func (c *cutter) root(v *graph.Value) *graph.Value {
	c.looks++
	if of := c.views[v]; of != nil {
		return of
	}
	return v
}

// producer is the item that computes the root of v; nil for an input of the graph.
func (c *cutter) producer(v *graph.Value) *item { return c.made[c.root(v)] }
