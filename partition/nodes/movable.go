package nodes

import "github.com/berth-ml/berth/engine/graph"

// Movable reports whether a node of the update can be on any device: it makes a number,
// or a counter or metric that all stages share.
func (x *Index) Movable(n *graph.Node) bool {
	if n.Phase != graph.Update {
		return false
	}
	shared := false
	for _, out := range n.Out {
		v := x.Variable[out.ID]
		if v != nil && OwnsItself(v.Role) {
			return false
		}
		shared = shared || v != nil && (v.Role == graph.Counter || v.Role == graph.Metric)
	}
	return shared || Scalars(n.Out)
}
