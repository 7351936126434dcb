package fuse

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// The limits of a batch: the elements of each node, and the number of nodes.
const (
	mostBatched = 1 << 17
	mostInBatch = 256
)

// Cuts is a graph in clusters.
type Cuts struct {
	Clusters []*Cluster // in an order in which they can run

	cutter *cutter // nil if every node is alone
}

// Kernels counts the clusters that compute something.
func (c *Cuts) Kernels() int {
	n := 0
	for _, k := range c.Clusters {
		if !IsView(k.Nodes[0]) {
			n++
		}
	}
	return n
}

// Edge is a value that one cluster makes and another reads.
type Edge struct {
	Value    *graph.Value
	From, To *graph.Node
	Why      string // the reason why the clusters are two
	cost     bool   // they are two for their cost alone
}

// Alone makes every node a cluster of its own.
func Alone(g *graph.Graph) *Cuts {
	c, needs := &Cuts{}, graph.NeedsOf(g)
	for i, n := range g.Nodes {
		k := Single(n)
		k.When = needs.Guards(i)
		c.Clusters = append(c.Clusters, k)
	}
	return c
}

// Cut fuses all nodes that can be fused. alias lists, per output of the graph, the
// input whose memory it takes over, or -1; nil means none. The readers of that
// input must run before the output is written, so they cannot be fused with nodes
// that come after.
func Cut(g *graph.Graph, alias []int) *Cuts {
	cuts, _ := CutUntil(g, alias, nil)
	return cuts
}

// CutUntil is [Cut]. ask is called now and then; its error ends the cut. Nil means
// never.
func CutUntil(g *graph.Graph, alias []int, ask func() error) (*Cuts, error) {
	c := newCutter(g, stop.When(ask))
	cuts := &Cuts{cutter: c}
	for _, pass := range []func(){
		func() { c.link(alias) }, c.number, c.rank, c.fuseAll, c.pair, c.batch,
		func() { cuts.Clusters = c.clusters() },
	} {
		pass()
		if err := c.stop.Err(); err != nil {
			return nil, err
		}
	}
	return cuts, nil
}

// fuseAll fuses until nothing is left to fuse.
func (c *cutter) fuseAll() {
	for c.fuse() && c.stop.Err() == nil {
	}
}

// fuse merges groups along edges, in graph order, and tells whether it merged any.
func (c *cutter) fuse() (some bool) {
	for _, it := range stop.Each(c.stop, c.items) {
		if it.rule.class != Map && it.rule.class != Sum {
			continue
		}
		for _, v := range it.node.In {
			from := c.producer(v)
			if from != nil && from.group != it.group && c.refusal(from.group, it.group) == "" {
				c.merge(from.group, it.group)
				some = true
			}
		}
	}
	return some
}

// pair merges groups that go over the same rows, such as a loss and its gradient,
// so that a row is read from memory once. A node may take from another only
// outputs made row by row, and so not a first output, which is a sum over all
// rows.
func (c *cutter) pair() {
	open := map[*graph.Value]*group{}
	for _, it := range stop.Each(c.stop, c.items) {
		if it.rule.class != Rows {
			continue
		}
		x := c.root(it.node.In[0])
		g := open[x]
		if g == nil {
			open[x] = it.group
		} else if g.frame == it.frame && sameGuards(g, it.group) && !c.waits(it, g) && c.detour(g, it.group) == nil {
			c.merge(g, it.group)
		}
	}
}

// batch merges small groups that do not depend on each other. Their work is little
// against the cost of handing it out and waiting for the last thread. Their
// outputs must be small too, since all are in memory at once.
func (c *cutter) batch() {
	var open *group
	for _, it := range stop.Each(c.stop, c.items) {
		switch {
		case it.rule.class != Small || it.frame.Elems > mostBatched:
		case open == nil:
			open = it.group
		case len(open.items) < mostInBatch && sameGuards(open, it.group) && c.independent(open, it.group):
			c.merge(open, it.group)
		}
	}
}

// Edges lists the values that go from one cluster to another, in graph order.
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
				why := c.refusal(from.group, it.group)
				edges = append(edges, Edge{c.root(v), from.node, it.node, why, why != "" && why == c.cheaperApart(from.group, it.group)})
			}
		}
	}
	return edges
}
