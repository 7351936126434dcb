package fuse

import (
	"container/heap"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// clusters lists the groups as clusters, in an order in which they can run: among
// those that are free, the one that begins first in the graph goes first. A view
// follows the value that it shows.
func (c *cutter) clusters() []*Cluster {
	c.count()
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
	for len(free) > 0 && !c.stop.Done() {
		g := heap.Pop(&free).(*group)
		list = append(list, c.cluster(g))
		for _, it := range g.items {
			list = append(list, views[it]...)
		}
		for _, next := range g.readers {
			if next.missing--; next.missing == 0 {
				heap.Push(&free, next)
			}
		}
	}
	return list
}

// count lists the readers of each group, and counts, in missing, the groups that come
// before each.
func (c *cutter) count() {
	for _, it := range stop.Each(c.stop, c.items) {
		g := it.group
		if it != g.items[0] {
			continue
		}
		c.search++
		g.mark, g.missing = c.search, 0 // it does not read itself
		for _, it := range g.items {
			for _, v := range it.reads() {
				if from := c.producer(v); from != nil && from.group.mark != c.search {
					from.group.mark = c.search
					from.group.readers = append(from.group.readers, g)
					g.missing++
				}
			}
		}
	}
}

// viewsOf lists the views of each item's values, and under nil the views of the
// graph's inputs.
func (c *cutter) viewsOf() map[*item][]*Cluster {
	of := map[*item][]*Cluster{}
	for _, n := range stop.Each(c.stop, c.graph.Nodes) {
		if IsView(n) {
			of[c.producer(n.Out[0])] = append(of[c.producer(n.Out[0])], Single(n))
		}
	}
	return of
}

// cluster makes a cluster of a group that has stopped growing.
func (c *cutter) cluster(g *group) *Cluster {
	if len(g.items) == 1 {
		k := Single(g.items[0].node)
		k.When = g.items[0].when
		return k
	}
	first := g.items[0]
	k := &Cluster{Frame: g.frame, Raw: -1, When: first.when, Lockstep: first.rule.class == Rows, Batch: first.rule.class == Small}
	if g.head != nil {
		k.Head = g.head.node
	}
	for _, it := range g.items {
		var reads []*graph.Value
		for _, v := range it.node.In {
			v = c.root(v)
			reads = append(reads, v)
			if p := c.producer(v); (p == nil || p.group != g) && !slices.Contains(k.In, v) {
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
	k.chooseRaw()
	k.findAliases()
	return k
}

// leaves tells whether a value v that it computes is read outside its group.
func (c *cutter) leaves(it *item, v *graph.Value) bool {
	if c.values.At(v).output {
		return true
	}
	for _, r := range it.after {
		if r.group != it.group && slices.ContainsFunc(r.reads(), func(in *graph.Value) bool { return c.root(in) == v }) {
			return true
		}
	}
	return false
}
