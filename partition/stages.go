package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// describeStages is pass 8: the blocks, arithmetic, traffic and memory of each
// stage.
func describeStages(idx *index, p *Plan, stop func() error) ([]Stage, error) {
	n := len(p.cut.device)
	stages := make([]Stage, n)
	has := map[int]map[*graph.Value]bool{} // per device: variables and inputs of earlier stages
	for s := range stages {
		d := p.cut.device[s]
		if has[d] == nil {
			has[d] = map[*graph.Value]bool{}
		}
		f, err := measure(idx, p.place, s, s+1, has[d], stop)
		if err != nil {
			return nil, err
		}
		stages[s] = Stage{
			Index: s, Device: d, Parameters: f.parameters, Flops: f.flops, Recomputed: f.recomputed,
			Memory: f.memory(p.options.inFlight(n, s)), Cause: p.cut.cause[s],
		}
		for i, b := range p.cut.blocks {
			if p.cut.stageOf[i] == s {
				stages[s].Blocks = append(stages[s].Blocks, b)
			}
		}
		for _, seg := range p.Segments {
			if seg.Stage != s {
				continue
			}
			for _, slot := range append(slices.Clone(seg.First.In), seg.First.Out...) {
				has[d][slot.Value] = true
			}
		}
		stages[s].Layers = layersOf(idx, p.place, s)
	}
	for _, t := range p.Transfers {
		if t.Rate == PerMicrobatch {
			stages[t.To].BytesIn += t.Bytes
			stages[t.From].BytesOut += t.Bytes
		}
	}
	return stages, nil
}

// layersOf lists the layers that have a forward node on a stage, by position.
func layersOf(idx *index, pl *placement, stage int) []*graph.Layer {
	var ls []*graph.Layer
	seen := map[*graph.Layer]bool{}
	for _, n := range idx.g.Nodes {
		if n.Layer != nil && n.Phase == graph.Forward && pl.node[n.ID] == stage && !seen[n.Layer] {
			seen[n.Layer] = true
			ls = append(ls, n.Layer)
		}
	}
	slices.SortStableFunc(ls, func(a, b *graph.Layer) int { return a.Index - b.Index })
	return ls
}
