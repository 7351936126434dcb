package partition

import (
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/segment"
)

// ActionFlops is the arithmetic of a schedule's actions, as costs to simulate it with:
// that of the nodes which an action's launches run, merged ones in the pass that they
// are of. An update counts as nothing.
func (p *Plan) ActionFlops() schedule.Costs {
	type pass struct {
		stage int
		kind  schedule.Kind
	}
	flops := map[pass]float64{}
	for i := range p.Segments {
		s := &p.Segments[i]
		for _, n := range s.First.Graph.Nodes {
			flops[pass{s.Stage, segment.PassOf(n, s.Pass)}] += float64(n.Cost().Flops)
		}
	}
	return schedule.Costs{Action: func(a schedule.Action) float64 {
		if a.Kind == schedule.Update {
			return 0
		}
		return flops[pass{a.Stage, a.Kind}]
	}}
}
