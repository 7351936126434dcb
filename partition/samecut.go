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
	return SameCutOn(p, g, p.options.ofOne().Devices, p.firstDevices(), stop)
}

// firstDevices are the devices of the stages' first replica.
func (p *Plan) firstDevices() (list []int) {
	for i := range p.Stages {
		list = append(list, p.Stages[i].Device)
	}
	return list
}

// SameCutOn is SameCut on other devices: stage s of p is on devices[on[s]].
func SameCutOn(p *Plan, g *graph.Graph, devices []device.Spec, on []int, stop func() error) (*Plan, error) {
	blocks := map[string]bool{}
	for _, n := range g.Nodes {
		if n.Layer != nil {
			blocks[n.Layer.Block] = true
		}
	}
	o := PlanOptions{Devices: devices, Estimate: p.options.Estimate, Microbatches: 1, Stop: stop}
	for i, s := range p.Stages {
		var stage []string
		for _, b := range s.Blocks {
			if blocks[b] {
				stage = append(stage, b)
			}
		}
		if len(stage) > 0 {
			o.Stages, o.On = append(o.Stages, stage), append(o.On, on[i])
		}
	}
	return New(g, o)
}
