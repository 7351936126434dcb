package graph

// Prune removes the nodes that nothing needs: neither an output, an assigned
// variable nor a sum over microbatches. Node IDs stay as they were built.
func Prune(g *Graph) *Graph {
	live := map[*Value]bool{}
	for _, v := range g.Outputs {
		live[v] = true
	}
	for _, a := range g.Assigns {
		live[a.New] = true
	}
	sums := map[*Value]*Value{}
	for _, a := range g.Accums {
		sums[a.Sum] = a.Part
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
			live[in] = true
			if part := sums[in]; part != nil {
				live[part] = true
			}
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
