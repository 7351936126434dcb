package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/footprint"
	"github.com/berth-ml/berth/partition/segment"
)

// describeStages is pass 9: the blocks, arithmetic, traffic and memory of each
// stage.
func describeStages(g *segment.Groups, p *Plan) ([]Stage, error) {
	n := len(p.cut.Device)
	stages := make([]Stage, n)
	one := p.options.ofOne()
	flight := one.pipeline().InFlight(p.cut.Device)
	bound, meter := boundOf(p.Segments, n), footprint.NewMeter(g)
	has := map[int]map[*graph.Value]bool{} // per device: variables and inputs of earlier stages
	for s := range stages {
		d := p.cut.Device[s]
		if has[d] == nil {
			has[d] = map[*graph.Value]bool{}
		}
		f, err := meter.Measure(s, s+1, has[d])
		if err != nil {
			return nil, err
		}
		stages[s] = Stage{
			Index: s, Device: d, Parameters: f.Parameters, Flops: f.Flops, Recomputed: f.Recomputed,
			Memory: f.Memory(flight[s]), Cause: p.cut.Cause[s] + p.movedHere(s), Layers: layersOf(g, s),
		}
		for _, v := range bound[s] {
			has[d][v] = true
		}
	}
	for i, b := range p.cut.Blocks {
		s := &stages[p.cut.StageOf[i]]
		s.Blocks = append(s.Blocks, b)
	}
	for _, t := range stop.Each(g.Index.Stop, p.Transfers) {
		if t.Rate == segment.PerMicrobatch {
			stages[t.To].BytesIn += t.Bytes
			stages[t.From].BytesOut += t.Bytes
		}
	}
	return stages, g.Index.Stop.Err()
}

// boundOf lists, by stage, the variables and inputs that its segments read or
// write.
func boundOf(segments []segment.Segment, stages int) [][]*graph.Value {
	bound := make([][]*graph.Value, stages)
	for _, seg := range segments {
		for _, slots := range [][]segment.Slot{seg.First.In, seg.First.Out} {
			for _, x := range slots {
				if x.Value.Kind == graph.Variable || x.Value.Kind == graph.Input {
					bound[seg.Stage] = append(bound[seg.Stage], x.Value)
				}
			}
		}
	}
	return bound
}

// layersOf lists the layers that have a forward node on a stage, by position.
func layersOf(g *segment.Groups, stage int) []*graph.Layer {
	var ls []*graph.Layer
	seen := map[*graph.Layer]bool{}
	for _, n := range stop.Each(g.Index.Stop, g.All[stage].Nodes[graph.Forward]) {
		if n.Layer != nil && !seen[n.Layer] {
			seen[n.Layer] = true
			ls = append(ls, n.Layer)
		}
	}
	slices.SortStableFunc(ls, func(a, b *graph.Layer) int { return a.Index - b.Index })
	return ls
}
