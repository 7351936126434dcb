package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/stop"
)

// withRanges is the graph with updates in ranges as in the plan of these options.
func (o PlanOptions) withRanges(g *graph.Graph, check *stop.Check) (*graph.Graph, error) {
	if !o.ranging.on() {
		return g, nil
	}
	whole := o
	whole.ranging = ranging{}
	idx, err := newIndex(g, whole, check)
	if err != nil {
		return nil, err
	}
	if cut, _ := cutUpdates(idx, o.ranging); cut != nil {
		g = cut
	}
	return g, check.Err()
}

// ranger cuts the updates of a graph into ranges. A node of the update becomes one
// node per range. These change the weight in place, one after the other. The
// optimizer's state becomes a variable per range, since nothing else uses it. The
// weight and its gradient stay whole: products read and write them so.
type ranger struct {
	idx   *index
	r     ranging
	g     *graph.Graph
	node  int                             // ID of the next node
	from  []int                           // per new node: the ID of the node that it is a range of
	parts map[*graph.Value][]*graph.Value // ranges of each variable that is cut
	last  map[*graph.Value]*graph.Value   // of each value that is not made any more: the one that has its contents
}

// cutUpdates is the graph with updates in ranges; nil if no update is cut. from[i] is
// the ID of the node that node idx.ids+i is a range of.
func cutUpdates(idx *index, r ranging) (g *graph.Graph, from []int) {
	if !r.on() {
		return nil, nil
	}
	c := &ranger{idx: idx, r: r, g: new(graph.Graph), node: idx.ids, parts: map[*graph.Value][]*graph.Value{}, last: map[*graph.Value]*graph.Value{}}
	*c.g = *idx.g
	c.g.Nodes, c.g.Vars, c.g.Assigns = nil, nil, nil
	c.g.Values = slices.Clone(idx.g.Values)
	for _, n := range stop.Each(idx.stop, idx.g.Nodes) {
		if c.worthCutting(n) {
			c.cut(n)
		} else {
			c.g.Nodes = append(c.g.Nodes, n)
		}
	}
	for _, v := range idx.g.Vars {
		if parts := c.parts[v]; parts != nil {
			c.g.Vars = append(c.g.Vars, parts...)
		} else {
			c.g.Vars = append(c.g.Vars, v)
		}
	}
	c.assign()
	if len(c.from) == 0 {
		return nil, nil
	}
	return c.g, c.from
}

// worthCutting reports whether n updates a large variable with its own state.
func (c *ranger) worthCutting(n *graph.Node) bool {
	if n.Phase != graph.Update || len(n.In) == 0 || n.In[0].Meta.Elems() <= c.r.elems {
		return false
	}
	whole := ops.Ranged{Op: n.Op, Count: c.r.size(n.In[0])}
	alias := whole.Alias()
	if len(alias) < 2 {
		return false // without state nothing is gained
	}
	lease := int64(0)
	for i, v := range n.In {
		if whole.Cuts(v.Meta) {
			lease += v.Meta.Bytes()
			if !v.Meta.Equal(n.In[0].Meta) || slices.Contains(n.In[:i], v) {
				return false
			}
		}
	}
	for k, out := range n.Out {
		v := n.In[alias[k]]
		if c.idx.variable[out.ID] != v || len(c.idx.readers[out.ID]) > 0 || c.idx.output[out.ID] || c.idx.output[v.ID] {
			return false
		}
		if k > 0 && (len(c.idx.readers[v.ID]) > 1 || v.Init.Kind != graph.Zeros) {
			return false
		}
	}
	return lease > c.r.above
}

// cut appends the nodes that are n's ranges.
func (c *ranger) cut(n *graph.Node) {
	in := slices.Clone(n.In)
	alias := ops.Ranged{Op: n.Op}.Alias()
	all, size := n.In[0].Meta.Elems(), c.r.size(n.In[0])
	for from := 0; from < all; from += size {
		op := ops.Ranged{Op: n.Op, From: from, Count: min(size, all-from)}
		for _, i := range alias[1:] {
			in[i] = c.part(n.In[i], op)
		}
		x := &graph.Node{ID: c.node, Op: op, In: slices.Clone(in), Phase: n.Phase, Layer: n.Layer, Of: n.Of}
		c.node++
		c.from = append(c.from, n.ID)
		for k, out := range n.Out {
			v := c.value(out, op)
			v.Meta, v.Node = in[alias[k]].Meta, x
			x.Out = append(x.Out, v)
			if k > 0 {
				c.g.Assigns = append(c.g.Assigns, graph.Assign{Var: in[alias[k]], New: v})
			}
		}
		in[alias[0]] = x.Out[0]
		c.last[n.Out[0]] = x.Out[0]
		c.g.Nodes = append(c.g.Nodes, x)
	}
}

// part is the variable that is a range of v.
func (c *ranger) part(v *graph.Value, op ops.Ranged) *graph.Value {
	p := c.value(v, op)
	p.Meta.Shape = []int{op.Count}
	p.Range = &graph.Range{Of: v, From: op.From}
	c.parts[v] = append(c.parts[v], p)
	return p
}

// value appends a copy of v, named by a range.
func (c *ranger) value(v *graph.Value, op ops.Ranged) *graph.Value {
	x := new(graph.Value)
	*x = *v
	x.ID, x.Name = len(c.g.Values), rangeLabel(v.Name, op.From, op.Count)
	c.g.Values = append(c.g.Values, x)
	return x
}

// assign keeps the assignments of whole variables.
func (c *ranger) assign() {
	for _, a := range c.idx.g.Assigns {
		if c.parts[a.Var] != nil {
			continue
		}
		if last := c.last[a.New]; last != nil {
			a.New = last
		}
		c.g.Assigns = append(c.g.Assigns, a)
	}
}

// withRanges is the placement of a graph that cutUpdates made: ranges are where the
// whole was.
func (p *placement) withRanges(g *graph.Graph, from []int) *placement {
	q := &placement{groups: p.groups, node: slices.Clone(p.node), owner: map[string]int{}}
	for _, id := range from {
		q.node = append(q.node, p.node[id])
	}
	for _, v := range g.Vars {
		q.owner[v.Name] = p.owner[v.Whole().Name]
	}
	if s := p.shared; s != nil {
		q.shared = &shares{node: slices.Clone(s.node), sum: append(s.sum, make([]int, len(g.Values)-len(s.sum))...)}
		for _, id := range from {
			q.shared.node = append(q.shared.node, s.node[id])
		}
	}
	return q
}

// beyondRange is the bytes that a node's inputs have beyond the range that it uses.
func beyondRange(n *graph.Node) (bytes int64) {
	op, ok := n.Op.(ops.Ranged)
	if !ok {
		return 0
	}
	in := graph.Metas(n.In)
	for i, part := range op.Parts(in) {
		bytes += in[i].Bytes() - part.Bytes()
	}
	return bytes
}
