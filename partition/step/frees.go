package step

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// endInstances fills in what is over after each launch: pass 7. The last launch that
// uses an instance ends it, also where that one writes it for nobody. Variables and
// constants of a microbatch last, and so do outputs that are to be fetched.
func (e *expansion) endInstances(check *stop.Check) {
	output := e.full.plan.Index.Output
	used := map[ID]bool{} // by the launches behind
	for i := range stop.Each(check, e.launches) {
		l := &e.launches[len(e.launches)-1-i]
		for _, n := range l.Needs {
			v := n.Value
			if v.Kind == graph.Variable || v.PerMicrobatch || e.o.Fetch && output[v.ID] || used[n.ID()] {
				continue
			}
			used[n.ID()] = true
			l.Over = append(l.Over, n.Instance)
		}
	}
}
