package fuse

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// mostNodes is how many nodes a cluster has at most: its operands should fit
// the cache tile by tile.
const mostNodes = 24

// A batch has nodes of so many elements at most, and so many nodes.
const (
	mostBatched = 1 << 17
	mostInBatch = 256
)

// Cuts is a graph in clusters.
type Cuts struct {
	Clusters []*Cluster // in an order in which they can run

	cutter *cutter // nil where every node is alone
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
	Why      string // they are two
}

// group is a cluster that grows.
type group struct {
	first   int // the position of its first node in the graph
	items   []*item
	frame   Frame
	head    *item
	rank    int64 // below that of every group that must run after
	mark    int   // of the search that met it last
	missing int   // groups that must run before
}

// cutter is the state of the pass.
type cutter struct {
	graph  *graph.Graph
	items  []*item                       // all but views
	made   map[*graph.Value]*item        // what computes a value; nil for inputs of the graph
	views  map[*graph.Value]*graph.Value // what a view shows, which is none itself
	output map[*graph.Value]bool         // what outputs of the graph show
	cyclic bool                          // what was donated is read too late: whoever asked is told so later
	search int
	looks  int // at values and groups, so far
}

// Alone makes every node a cluster of its own.
func Alone(g *graph.Graph) *Cuts {
	c := &Cuts{}
	for _, n := range g.Nodes {
		c.Clusters = append(c.Clusters, Single(n))
	}
	return c
}

// Cut fuses what can be. alias lists, per output of the graph, the input whose
// memory it takes over, or -1; nil means none. Whoever reads that input must run
// before, and so cannot be fused with what comes after.
func Cut(g *graph.Graph, alias []int) *Cuts {
	c := newCutter(g)
	c.link(alias)
	c.number()
	c.rank()
	for c.fuse() {
	}
	c.pair()
	c.batch()
	return &Cuts{c.clusters(), c}
}

// newCutter makes every node that moves bytes a group.
func newCutter(g *graph.Graph) *cutter {
	c := &cutter{graph: g, made: map[*graph.Value]*item{}, views: map[*graph.Value]*graph.Value{}, output: map[*graph.Value]bool{}}
	for i, n := range g.Nodes {
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

// IsView tells the nodes that move no bytes: the output is the input under
// another shape.
func IsView(n *graph.Node) bool { return rules[n.Op.Kind()].class == View }

// root is what a value is a view of in the graph; itself if it is none.
func (c *cutter) root(v *graph.Value) *graph.Value {
	c.looks++
	if of := c.views[v]; of != nil {
		return of
	}
	return v
}

// producer is the item that computes what v is a view of; nil for an input of
// the graph.
func (c *cutter) producer(v *graph.Value) *item { return c.made[c.root(v)] }

// Ends tells the nodes that end a step where something went wrong. What was
// donated must be as it was by then.
func Ends(n *graph.Node) bool { return n.Op.Kind() == "check_finite" }

// link finds what must come after what: readers after writers, and what writes
// in a donated input after all that read it and all that may end the step.
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
	for _, it := range c.items {
		if Ends(it.node) {
			ends = append(ends, it)
		}
		for _, v := range it.node.In {
			users[c.root(v)] = append(users[c.root(v)], it)
			after(c.producer(v), it)
		}
	}
	for k, j := range alias {
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

// fuse merges groups along edges, in graph order, and tells whether it could.
func (c *cutter) fuse() (some bool) {
	for _, it := range c.items {
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

// refusal is why two groups, of which b reads what a makes, cannot be one; ""
// if they can.
func (c *cutter) refusal(a, b *group) string {
	for _, g := range []*group{a, b} {
		if first := g.items[0]; first.rule.class == Solo || first.rule.class == Small || first.rule.class == Rows {
			return first.node.Op.Kind() + " " + first.rule.why
		}
	}
	_, fits := a.frame.join(b.frame)
	switch {
	case b.head != nil && c.feeds(a, b.head):
		return b.head.node.Op.Kind() + " " + b.head.rule.why
	case b.head != nil && a.head != nil:
		return fmt.Sprintf("%s and %s both make tiles of their own", a.head.node.Op.Kind(), b.head.node.Op.Kind())
	case a.items[0].node.Phase == graph.Forward && slices.ContainsFunc(b.items, func(it *item) bool { return it.node.Again }):
		return "it is computed again so as not to be kept"
	case !fits:
		return fmt.Sprintf("%v do not go with %v", a.frame, b.frame)
	case len(a.items)+len(b.items) > mostNodes:
		return fmt.Sprintf("%d nodes are enough for a cluster", mostNodes)
	}
	if c.streams(a, b) > 1 {
		return "it is faster to go over large tensors by themselves"
	}
	if why := c.sideways(a, b); why != "" {
		return why
	}
	if via := c.detour(a, b); via != nil {
		return via.Op.Kind() + " comes between"
	}
	return ""
}

// pair merges groups that go over the same rows, such as a loss and its gradient,
// so that a row is read from memory once. What one takes of another must be there
// row by row: it is no first output, which is a sum over all rows.
func (c *cutter) pair() {
	open := map[*graph.Value]*group{}
	for _, it := range c.items {
		if it.rule.class != Rows {
			continue
		}
		x := c.root(it.node.In[0])
		g := open[x]
		if g == nil {
			open[x] = it.group
		} else if g.frame == it.frame && !c.waits(it, g) && c.detour(g, it.group) == nil {
			c.merge(g, it.group)
		}
	}
}

// waits tells whether a node reads the first output of a group's.
func (c *cutter) waits(it *item, g *group) bool {
	return slices.ContainsFunc(it.node.In, func(v *graph.Value) bool {
		p := c.producer(v)
		return p != nil && p.group == g && c.root(v).Out == 0
	})
}

// batch merges small groups that do not depend on each other: what they have to
// do is little against handing it out and waiting for the last thread. What they
// write must be small too, since all of it is there at once.
func (c *cutter) batch() {
	var open *group
	for _, it := range c.items {
		switch {
		case it.rule.class != Small || it.frame.Elems > mostBatched:
		case open == nil:
			open = it.group
		case len(open.items) < mostInBatch && c.independent(open, it.group):
			c.merge(open, it.group)
		}
	}
}

// independent tells whether two groups may run at the same time.
func (c *cutter) independent(a, b *group) bool {
	for _, g := range [][2]*group{{a, b}, {b, a}} {
		for _, it := range g[0].items {
			for _, r := range it.after {
				if r.group == g[1] {
					return false
				}
			}
		}
	}
	return c.detour(a, b) == nil
}

// feeds tells whether a makes an operand of it.
func (c *cutter) feeds(a *group, it *item) bool {
	return slices.ContainsFunc(it.node.In, func(v *graph.Value) bool {
		p := c.producer(v)
		return p != nil && p.group == a
	})
}

// streams counts what two groups behind a lean head read and write of the frame's
// size, besides what that head reads: more than its own output in place costs more
// in parts of rows than it saves.
func (c *cutter) streams(a, b *group) int {
	if a.head == nil && b.head == nil || a.head != nil && !a.head.rule.lean || b.head != nil && !b.head.rule.lean {
		return 0
	}
	inside := func(it *item) bool { return it != nil && (it.group == a || it.group == b) }
	seen := map[*graph.Value]bool{}
	for _, it := range append(slices.Clone(a.items), b.items...) {
		for _, v := range it.node.In {
			if v = c.root(v); it.rule.class != Head && !inside(c.made[v]) && v.Meta.Elems() == it.frame.Elems {
				seen[v] = true
			}
		}
		for _, v := range it.node.Out {
			if c.output[v] ||
				slices.ContainsFunc(it.after, func(r *item) bool {
					return !inside(r) && slices.ContainsFunc(r.node.In, func(in *graph.Value) bool { return c.root(in) == v })
				}) {
				seen[v] = true
			}
		}
	}
	return len(seen)
}

// sideways is why one of two groups needs more than tiles of the other: it reads
// a sum, or another output of a head than the one made of tiles, or sums rows that
// come in parts; "" if it does not.
func (c *cutter) sideways(a, b *group) string {
	head := a.head
	if head == nil {
		head = b.head
	}
	for _, g := range []*group{a, b} {
		for _, it := range g.items {
			if it.rule.class == Sum && head != nil && !head.rule.whole {
				return head.node.Op.Kind() + " makes parts of rows, and sums take whole ones"
			}
			for _, v := range it.node.In {
				from := c.producer(v)
				switch {
				case from == nil || from.group != a && from.group != b:
				case from.rule.class == Sum:
					return from.node.Op.Kind() + " is known only at the end of a sum"
				case from == head && c.root(v).Out > 0:
					return it.node.Op.Kind() + " reads more than tiles"
				}
			}
		}
	}
	return ""
}
