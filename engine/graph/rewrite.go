package graph

// Prune removes the nodes that nothing needs: neither an output, an assigned
// variable nor a sum over microbatches. Node IDs stay as they were built.
func Prune(g *Graph) *Graph {
	sums := map[*Value]*Value{}
	for _, a := range g.Accums {
		sums[a.Sum] = a.Part
	}
	live := map[*Value]bool{}
	need := func(v *Value) {
		live[v] = true
		if part := sums[v]; part != nil {
			live[part] = true
		}
	}
	for _, v := range g.Outputs {
		need(v)
	}
	for _, a := range g.Assigns {
		need(a.New)
	}
	keep := make([]bool, len(g.Nodes))
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		for _, out := range n.Out {
			keep[i] = keep[i] || live[out]
		}
		if !keep[i] {
			continue
		}
		for _, in := range n.In {
			need(in)
		}
	}
	out := *g
	out.Nodes, out.Accums = nil, nil
	for i, n := range g.Nodes {
		if keep[i] {
			out.Nodes = append(out.Nodes, n)
		}
	}
	for _, a := range g.Accums {
		if live[a.Sum] {
			out.Accums = append(out.Accums, a)
		}
	}
	return &out
}
