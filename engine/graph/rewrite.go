package graph

import "github.com/berth-ml/berth/internal/stop"

// Graph ends building. It returns the graph without unused nodes, or the first
// error. Nodes keep their IDs.
func (b *Builder) Graph() (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	g := prune(b.g, b.stop)
	if b.err = b.stop.Err(); b.err != nil {
		return nil, b.err
	}
	return g, nil
}

// prune removes unused nodes: no output, assigned variable or sum over microbatches
// depends on them.
func prune(g *Graph, c *stop.Check) *Graph {
	keep, live := needed(g, c)
	out := *g
	out.Nodes, out.Accums = nil, nil
	for i, n := range stop.Each(c, g.Nodes) {
		if keep[i] {
			out.Nodes = append(out.Nodes, n)
		}
	}
	for _, a := range g.Accums {
		if live[a.Sum.ID] {
			out.Accums = append(out.Accums, a)
		}
	}
	return &out
}

// needed marks the nodes, by index, and the values, by ID, that outputs and
// assignments depend on.
func needed(g *Graph, c *stop.Check) (keep, live []bool) {
	parts := map[*Value]*Value{}
	for _, a := range g.Accums {
		parts[a.Sum] = a.Part
	}
	live = make([]bool, len(g.Values))
	need := func(v *Value) {
		live[v.ID] = true
		if v.Kind == Summed {
			live[parts[v].ID] = true
		}
	}
	for _, v := range g.Outputs {
		need(v)
	}
	for _, a := range g.Assigns {
		need(a.New)
	}
	keep = make([]bool, len(g.Nodes))
	for i := len(g.Nodes) - 1; i >= 0 && !c.Done(); i-- {
		for _, out := range g.Nodes[i].Out {
			keep[i] = keep[i] || live[out.ID]
		}
		if !keep[i] {
			continue
		}
		for _, in := range g.Nodes[i].In {
			need(in)
		}
	}
	return keep, live
}
