package graph

import (
	"slices"

	"github.com/berth-ml/berth/internal/stop"
)

// Recompute is a copy of g whose backward pass computes forward values a second
// time, so that the first ones need not be kept in memory. may selects the
// forward nodes that may be recomputed.
//
// A node is recomputed for the backward pass of its own block only. It is not
// recomputed if its values are kept anyway: for another block, for the update,
// or as an output. The values are the same to the bit, those of random ops too:
// an op and its inputs determine them.
//
// ask is called now and then; its error ends the work. Nil means never.
func Recompute(g *Graph, may func(n *Node) bool, ask func() error) (*Graph, error) {
	check := stop.When(ask)
	ids := nodeIDs(g)
	kept := keptAnyway(g, check)
	redo := make([]bool, ids)
	for _, n := range stop.Each(check, g.Nodes) {
		if n.Phase == Forward && n.Layer != nil && !slices.ContainsFunc(n.Out, func(v *Value) bool { return kept[v.ID] }) {
			redo[n.ID] = may(n)
		}
	}
	c := newCopier(g, ids, check)
	if err := check.Err(); err != nil {
		return nil, err
	}
	r := &recomputer{g: c.g, copies: make([]*Value, len(g.Values)), redo: redo, next: max(len(g.Values), ids)}
	nodes := c.g.Nodes
	c.g.Nodes = nil
	for _, n := range stop.Each(check, nodes) {
		if n.Phase == Backward {
			r.replace(n.In, blockOf(n))
		}
		c.g.Nodes = append(c.g.Nodes, n)
	}
	return c.g, check.Err()
}

// nodeIDs is more than the ID of any node, pruned ones included.
func nodeIDs(g *Graph) (n int) {
	for _, v := range g.Values {
		if v.Node != nil {
			n = max(n, v.Node.ID+1)
		}
	}
	return n
}

// keptAnyway marks, by ID, the forward values that must be kept for others than
// the backward pass of their own block.
func keptAnyway(g *Graph, c *stop.Check) []bool {
	kept := make([]bool, len(g.Values))
	for _, v := range g.Outputs {
		kept[v.ID] = true
	}
	for _, n := range stop.Each(c, g.Nodes) {
		for _, v := range n.In {
			if v.Kind == Computed && v.Node.Phase == Forward && n.Phase != Forward && (n.Phase == Update || blockOf(n) != blockOf(v.Node)) {
				kept[v.ID] = true
			}
		}
	}
	return kept
}

// blockOf is the block of a node; for a node of the backward pass, the block of the
// forward node that it differentiates.
func blockOf(n *Node) string {
	if n.Of != nil {
		n = n.Of
	}
	if n.Layer == nil {
		return ""
	}
	return n.Layer.Block
}

// recomputer appends recomputed nodes to a graph as they are needed.
type recomputer struct {
	g      *Graph
	redo   []bool   // by Node.ID: the nodes to recompute
	copies []*Value // by Value.ID: the recomputed value, of each value that has one
	next   int      // ID of the next node
}

// replace replaces the inputs that are to be recomputed for a block.
func (r *recomputer) replace(in []*Value, block string) {
	for i, v := range in {
		if v.Kind != Computed || !r.redo[v.Node.ID] || blockOf(v.Node) != block {
			continue
		}
		if r.copies[v.ID] == nil {
			r.recompute(v.Node, block)
		}
		in[i] = r.copies[v.ID]
	}
}

// recompute appends n once more, in the backward pass.
func (r *recomputer) recompute(n *Node, block string) {
	m := &Node{Op: n.Op, In: slices.Clone(n.In), Phase: Backward, Layer: n.Layer, Of: n, Recomputed: true, Conditional: n.Conditional}
	r.replace(m.In, block)
	m.ID = r.next
	r.next++
	for _, v := range n.Out {
		w := &Value{ID: len(r.g.Values), Name: "recomputed/" + v.Name, Meta: v.Meta, Node: m, Out: v.Out}
		r.g.Values = append(r.g.Values, w)
		m.Out = append(m.Out, w)
		r.copies[v.ID] = w
	}
	r.g.Nodes = append(r.g.Nodes, m)
}

// copier copies a graph, so that the copy's nodes may be changed. IDs stay.
type copier struct {
	g      *Graph   // the copy
	values []*Value // copies, by Value.ID
	nodes  []*Node  // copies, by Node.ID
}

// newCopier copies g, whose nodes have IDs below ids.
func newCopier(g *Graph, ids int, check *stop.Check) *copier {
	c := &copier{values: make([]*Value, len(g.Values)), nodes: make([]*Node, ids)}
	out := *g
	c.g = &out
	out.Values = make([]*Value, len(g.Values))
	for i, v := range stop.Each(check, g.Values) {
		out.Values[i] = c.value(v)
	}
	if check.Err() != nil {
		return c // to copy the rest from its end would go as deep as the graph
	}
	out.Inputs, out.Vars, out.Outputs = c.all(g.Inputs), c.all(g.Vars), c.all(g.Outputs)
	out.Nodes = nil
	for _, n := range stop.Each(check, g.Nodes) {
		out.Nodes = append(out.Nodes, c.node(n))
	}
	out.Assigns = slices.Clone(g.Assigns)
	for i, a := range out.Assigns {
		out.Assigns[i] = Assign{c.value(a.Var), c.value(a.New)}
	}
	out.Accums = slices.Clone(g.Accums)
	for i, a := range out.Accums {
		out.Accums[i] = Accum{c.value(a.Part), c.value(a.Sum), a.Add}
	}
	return c
}

func (c *copier) all(vs []*Value) []*Value {
	out := make([]*Value, len(vs))
	for i, v := range vs {
		out[i] = c.value(v)
	}
	return out
}

func (c *copier) value(v *Value) *Value {
	w := c.values[v.ID]
	if w == nil {
		w = new(Value)
		*w = *v
		c.values[v.ID] = w
		if v.Node != nil {
			w.Node = c.node(v.Node)
		}
	}
	return w
}

func (c *copier) node(n *Node) *Node {
	m := c.nodes[n.ID]
	if m == nil {
		m = new(Node)
		*m = *n
		c.nodes[n.ID] = m
		m.In, m.Out = c.all(n.In), c.all(n.Out)
		if n.Of != nil {
			m.Of = c.node(n.Of)
		}
	}
	return m
}
