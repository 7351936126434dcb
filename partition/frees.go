package partition

import "github.com/berth-ml/berth/engine/graph"

// findFrees is pass 7: the last reader of every instance in plan order, and
// the outputs that have none.
func findFrees(idx *index, segments []Segment) {
	last := map[*graph.Value]int{}
	for i, s := range segments {
		for _, in := range s.First.In {
			last[in.Value] = i
		}
	}
	for i := range segments {
		s := &segments[i]
		for _, in := range s.First.In {
			if v := in.Value; last[v] == i && v.Kind != graph.Variable && !v.PerMicrobatch {
				s.Frees = append(s.Frees, v)
			}
		}
		for _, out := range s.First.Out {
			if _, isRead := last[out.Value]; !isRead && out.Value.Kind != graph.Variable {
				s.Unread = append(s.Unread, out.Value)
			}
		}
	}
}
