package eager

import (
	"slices"

	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// pair finds which outputs of the entry's graph can be computed in which inputs: each
// takes over one at most.
func (e *entry) pair() {
	for k, v := range e.graph.Outputs[:min(len(e.graph.Outputs), mostDonated)] {
		if j := takesOver(e.graph, v); j >= 0 && e.over[j] < 0 && e.graph.Inputs[j].Meta.Equal(v.Meta) {
			e.alias[k], e.over[j] = j, k
		}
	}
}

// takesOver is the input of g in whose memory the node of v can write v; -1 if there is
// none. Nothing that comes after the node may read the input, nor a view of it.
func takesOver(g *graph.Graph, v *graph.Value) int {
	n := v.Node
	if n == nil {
		return -1
	}
	a, ok := n.Op.(graph.Aliaser)
	if !ok || v.Out >= len(a.Alias()) || a.Alias()[v.Out] < 0 {
		return -1
	}
	in := n.In[a.Alias()[v.Out]]
	for _, reader := range g.Nodes {
		if reader != n && slices.Contains(reader.In, in) && (reader.ID > n.ID || fuse.IsView(reader)) {
			return -1
		}
	}
	return slices.Index(g.Inputs, in)
}
