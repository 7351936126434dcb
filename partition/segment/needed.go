package segment

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
)

// findNeeded tells each segment when others need its outputs: where the guards hold that all
// of their readers have. Segments are in running order, so it goes from the last to the first.
func findNeeded(idx *nodes.Index, segments []Segment) error {
	if !slices.ContainsFunc(idx.Graph.Nodes, func(n *graph.Node) bool { return n.Conditional }) {
		return nil
	}
	read := map[*graph.Value][]graph.Guard{} // by those behind: the guards of all readers
	for i := range stop.Each(idx.Stop, segments) {
		s := &segments[len(segments)-1-i]
		for _, v := range []*Variant{&s.First, &s.Later} {
			v.Graph.Needed = make([][]graph.Guard, len(v.Out))
			for k, out := range v.Out {
				if of := v.Graph.Outputs[k]; out.Value == of && !idx.Output[of.ID] { // neither a variable nor a sum
					v.Graph.Needed[k] = read[of]
				}
			}
		}
		guards, reads := graph.Inputs(s.First.Graph)
		for j, v := range s.First.Graph.Inputs {
			if reads[j] {
				if of, known := read[v]; known {
					guards[j] = slices.DeleteFunc(guards[j], func(x graph.Guard) bool { return !slices.Contains(of, x) })
				}
				read[v] = guards[j]
			}
		}
	}
	return idx.Stop.Err()
}
