package partition

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// SameCut cuts another graph of a model, such as its evaluation, into the
// stages of a plan, for one microbatch at a time. A block without a node in the
// graph, such as dropout outside training, is left out. stop is called now and
// then; its error ends the planning. Nil means never.
func SameCut(p *Plan, g *graph.Graph, stop func() error) (*Plan, error) {
	return SameCutOn(p, g, p.options.ofOne().Devices, 0, stop)
}

// SameCutOn is SameCut on other devices: the stages that p has on device d are on
// devices[d+shift].
func SameCutOn(p *Plan, g *graph.Graph, devices []device.Spec, shift int, stop func() error) (*Plan, error) {
	blocks := map[string]bool{}
	for _, n := range g.Nodes {
		if n.Layer != nil {
			blocks[n.Layer.Block] = true
		}
	}
	o := PlanOptions{Devices: devices, Evict: p.options.Evict, Estimate: p.options.Estimate, Microbatches: 1, Stop: stop}
	for _, s := range p.Stages {
		var stage []string
		for _, b := range s.Blocks {
			if blocks[b] {
				stage = append(stage, b)
			}
		}
		if len(stage) > 0 {
			o.Stages, o.On = append(o.Stages, stage), append(o.On, s.Device+shift)
		}
	}
	return New(g, o)
}
