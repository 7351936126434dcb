package partition

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// findFrees is pass 7: the last reader of every instance in plan order, and
// the outputs that have none.
func findFrees(idx *index, segments []Segment) {
	last := newTable[int](len(idx.g.Values)) // value → the last segment that reads it
	for i, s := range segments {
		for _, in := range stop.Each(idx.stop, s.First.In) {
			last.set(in.Value.ID, i)
		}
	}
	for i := range segments {
		s := &segments[i]
		for _, in := range stop.Each(idx.stop, s.First.In) {
			v := in.Value
			if end, _ := last.get(v.ID); end == i && v.Kind != graph.Variable && !v.PerMicrobatch {
				s.Frees = append(s.Frees, v)
			}
		}
		for _, out := range s.First.Out {
			if !last.has(out.Value.ID) && out.Value.Kind != graph.Variable {
				s.Unread = append(s.Unread, out.Value)
			}
		}
	}
}
