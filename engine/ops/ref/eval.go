package ref

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

// Eval computes the nodes of a graph in order. It returns all values, those
// of feed included. feed must hold the inputs and variables that the nodes
// read. It may hold sums over microbatches; any other sum equals its part, as
// in a step of one microbatch. Eval assigns nothing: the new contents of an
// assigned variable are the value assigned to it.
func Eval(g *graph.Graph, feed map[*graph.Value]Array) (map[*graph.Value]Array, error) {
	vals := map[*graph.Value]Array{}
	for v, a := range feed {
		if !a.Meta.Equal(v.Meta) {
			return nil, fmt.Errorf("%v is fed %v", v, a.Meta)
		}
		vals[v] = a
	}
	parts := map[*graph.Value]*graph.Value{}
	for _, a := range g.Accums {
		parts[a.Sum] = a.Part
	}
	for _, n := range g.Nodes {
		in := make([]Array, len(n.In))
		for i, v := range n.In {
			a, ok := lookup(v, vals, parts)
			if !ok {
				return nil, fmt.Errorf("%v reads %v, which was not fed", n, v)
			}
			in[i] = a
		}
		out, err := Run(n.Op, in)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", n, err)
		}
		for i, v := range n.Out {
			vals[v] = out[i]
		}
	}
	for sum := range parts {
		lookup(sum, vals, parts)
	}
	return vals, nil
}

// lookup finds a value. A sum that was not fed takes its part's contents.
func lookup(v *graph.Value, vals map[*graph.Value]Array, parts map[*graph.Value]*graph.Value) (Array, bool) {
	a, ok := vals[v]
	if part := parts[v]; !ok && part != nil {
		if a, ok = vals[part]; ok {
			vals[v] = a
		}
	}
	return a, ok
}
