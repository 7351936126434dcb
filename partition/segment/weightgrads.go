package segment

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// SplitBackward cuts the backward nodes of groups lo to hi-1, as one stage, into those
// of its B and of its W. Other stages wait for the results of B, which takes all nodes
// that lead there. W takes the rest: only sums over microbatches, the update and
// callers ask for it. What both need is made in B and kept until W, recomputed values
// too. On the first stage all is W: no stage waits for it. Without W in the schedule,
// all is B.
func (g *Groups) SplitBackward(lo, hi int, nodes []*graph.Node) (backward, weights []*graph.Node) {
	if !g.Index.Splits {
		return nodes, nil
	}
	g.asked.Clear()
	g.Kept.Clear()
	for i := range stop.Each(g.Index.Stop, nodes) {
		n := nodes[len(nodes)-1-i]
		if slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return g.asked.Has(v.ID) || g.awaited(v, lo, hi) }) {
			backward = append(backward, n)
			for _, v := range n.In {
				g.asked.Add(v.ID)
			}
			continue
		}
		weights = append(weights, n)
		for _, v := range n.In {
			g.Kept.Add(v.ID)
		}
	}
	slices.Reverse(backward)
	slices.Reverse(weights)
	return backward, weights
}

// awaited reports whether the backward pass of a group other than lo to hi-1 reads v.
func (g *Groups) awaited(v *graph.Value, lo, hi int) bool {
	return slices.ContainsFunc(g.Index.Readers[v.ID], func(r *graph.Node) bool {
		at := g.Placement.Node[r.ID]
		return r.Phase == graph.Backward && (at < lo || at >= hi)
	})
}
