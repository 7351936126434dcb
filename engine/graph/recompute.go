package graph

import "slices"

// Recompute is g with values that the backward pass reads computed a second
// time there, so that the first ones need not be kept. again says of a forward
// node whether it may be; what it reads is computed again too where again says
// so. A node is computed again for its own block only, and not where what it
// made is kept anyway: for another block, for the update, or as an output. The
// same op on the same values gives the same bits, random numbers included,
// which depend on the op's attributes alone. g stays as it is.
func Recompute(g *Graph, again func(n *Node) bool) *Graph {
	kept := keptAnyway(g)
	redo := map[*Node]bool{}
	for _, n := range g.Nodes {
		if n.Phase == Forward && n.Layer != nil && !slices.ContainsFunc(n.Out, func(v *Value) bool { return kept[v] }) {
			redo[n] = again(n)
		}
	}
	c := newCopier(g)
	r := &recomputer{g: c.g, copies: map[*Value]*Value{}, redo: map[*Node]bool{}, next: len(g.Values)}
	for _, n := range c.g.Nodes {
		r.next = max(r.next, n.ID+1) // an ID that no node has, pruned ones included
		r.redo[n] = redo[c.origin[n]]
	}
	nodes := c.g.Nodes
	c.g.Nodes = nil
	for _, n := range nodes {
		if n.Phase == Backward {
			r.replace(n.In, blockOf(n))
		}
		c.g.Nodes = append(c.g.Nodes, n)
	}
	return c.g
}

// keptAnyway marks what outlives the forward pass of its block whatever the
// block's own backward pass does.
func keptAnyway(g *Graph) map[*Value]bool {
	kept := map[*Value]bool{}
	for _, v := range g.Outputs {
		kept[v] = true
	}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v.Kind == Computed && v.Node.Phase == Forward && n.Phase != Forward && (n.Phase == Update || blockOf(n) != blockOf(v.Node)) {
				kept[v] = true
			}
		}
	}
	return kept
}

// blockOf is the block of a node: of what it differentiates, if it does.
func blockOf(n *Node) string {
	if n.Of != nil {
		n = n.Of
	}
	if n.Layer == nil {
		return ""
	}
	return n.Layer.Block
}

// recomputer appends nodes to a graph as they are needed.
type recomputer struct {
	g      *Graph
	redo   map[*Node]bool
	copies map[*Value]*Value
	next   int // ID of the next node
}

// replace puts values computed again in the place of those of a block that are.
func (r *recomputer) replace(in []*Value, block string) {
	for i, v := range in {
		if v.Kind != Computed || !r.redo[v.Node] || blockOf(v.Node) != block {
			continue
		}
		if r.copies[v] == nil {
			r.again(v.Node, block)
		}
		in[i] = r.copies[v]
	}
}

// again appends n once more, in the backward pass.
func (r *recomputer) again(n *Node, block string) {
	m := &Node{Op: n.Op, In: slices.Clone(n.In), Phase: Backward, Layer: n.Layer, Of: n, Again: true}
	r.replace(m.In, block)
	m.ID = r.next
	r.next++
	for _, v := range n.Out {
		w := &Value{ID: len(r.g.Values), Name: "again/" + v.Name, Meta: v.Meta, Node: m, Out: v.Out}
		r.g.Values = append(r.g.Values, w)
		m.Out = append(m.Out, w)
		r.copies[v] = w
	}
	r.g.Nodes = append(r.g.Nodes, m)
}

// copier copies a graph, so that the copy's nodes may be changed.
type copier struct {
	g      *Graph
	values map[*Value]*Value
	nodes  map[*Node]*Node
	origin map[*Node]*Node
}

func newCopier(g *Graph) *copier {
	c := &copier{values: map[*Value]*Value{}, nodes: map[*Node]*Node{}, origin: map[*Node]*Node{}}
	out := *g
	c.g = &out
	out.Values = c.all(g.Values)
	out.Inputs, out.Vars, out.Outputs = c.all(g.Inputs), c.all(g.Vars), c.all(g.Outputs)
	out.Nodes = nil
	for _, n := range g.Nodes {
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
	w := c.values[v]
	if w == nil {
		w = new(Value)
		*w = *v
		c.values[v] = w
		if v.Node != nil {
			w.Node = c.node(v.Node)
		}
	}
	return w
}

func (c *copier) node(n *Node) *Node {
	m := c.nodes[n]
	if m == nil {
		m = new(Node)
		*m = *n
		c.nodes[n], c.origin[m] = m, n
		m.In, m.Out = c.all(n.In), c.all(n.Out)
		if n.Of != nil {
			m.Of = c.node(n.Of)
		}
	}
	return m
}
