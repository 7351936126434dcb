package graph

// Prune is the graph without unused nodes: those that no output, assigned variable
// or sum over microbatches depends on. Nodes keep their IDs.
func Prune(g *Graph) *Graph {
	keep, live := needed(g)
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

// needed marks the nodes and values that outputs and assignments depend on.
func needed(g *Graph) (keep []bool, live map[*Value]bool) {
	parts := map[*Value]*Value{}
	for _, a := range g.Accums {
		parts[a.Sum] = a.Part
	}
	live = map[*Value]bool{}
	need := func(v *Value) {
		live[v] = true
		if part := parts[v]; part != nil {
			live[part] = true
		}
	}
	for _, v := range g.Outputs {
		need(v)
	}
	for _, a := range g.Assigns {
		need(a.New)
	}
	keep = make([]bool, len(g.Nodes))
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		for _, out := range g.Nodes[i].Out {
			keep[i] = keep[i] || live[out]
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
