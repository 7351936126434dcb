package cut

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// CheckEdges makes sure that forward values only go to the same or a later
// stage, and gradients the other way.
func CheckEdges(idx *nodes.Index, pl *place.Placement) error {
	for _, n := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		for _, v := range n.In {
			if v.Kind != graph.Computed || n.Phase == graph.Update || v.Node.Phase != n.Phase {
				continue
			}
			from, to := pl.Node[v.Node.ID], pl.Node[n.ID]
			if n.Phase == graph.Forward && from > to || n.Phase == graph.Backward && from < to {
				return fmt.Errorf("%w: in the %v, %s of stage %d makes %s, which %s of stage %d reads, but the %v runs the stages in the other order; put both in one stage",
					ErrStages, n.Phase, describe(v.Node), from, v.Name, describe(n), to, n.Phase)
			}
		}
	}
	return nil
}

// describe names a node by its layer.
func describe(n *graph.Node) string {
	if n.Layer == nil {
		return n.Op.Kind()
	}
	return n.Layer.String()
}
