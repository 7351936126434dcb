package fuse

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

// Kept is a node that is a cluster of its own, and no view.
type Kept struct {
	Node *graph.Node
	Why  string
}

// Kept lists the nodes that are in no cluster with others, in graph order, each with the
// reason.
func (c *Cuts) Kept() (list []Kept) {
	if c.cutter == nil {
		return nil
	}
	edges := map[*graph.Node][]Edge{}
	for _, e := range c.Edges() {
		edges[e.From], edges[e.To] = append(edges[e.From], e), append(edges[e.To], e)
	}
	for _, it := range c.cutter.items {
		if len(it.group.items) == 1 {
			list = append(list, Kept{it.node, it.kept(edges[it.node])})
		}
	}
	return list
}

// kept is the reason why an item is alone, given the edges to other clusters.
func (it *item) kept(edges []Edge) string {
	switch {
	case it.rule.class == Solo, it.rule.class == Rows:
		return it.rule.why
	case it.rule.class == Small && it.frame.Elems > mostBatched:
		return fmt.Sprintf("its %d elements are worth a pass; up to %d are updated side by side", it.frame.Elems, mostBatched)
	case it.rule.class == Small:
		return "no other small update is independent of it"
	case len(edges) == 0:
		return "it shares no value with another op"
	}
	for _, e := range edges { // a neighbour that could be in its cluster tells most
		if e.cost {
			return e.Why
		}
	}
	return edges[0].Why
}
