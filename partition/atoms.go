package partition

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/speed"
)

// Atoms is a plan whose stages are the smallest parts into which a graph can be cut,
// to time them: see [Plan.BlockSeconds]. It is for the first device, as if that had
// no limit on its memory.
func Atoms(g *graph.Graph, o PlanOptions) (*Plan, error) {
	checked, err := o.checked()
	if err != nil {
		return nil, err
	}
	if err := checked.findPieces(g); err != nil {
		return nil, err
	}
	check := stop.When(o.Stop)
	if g, err = checked.pinned.Apply(g, check); err != nil {
		return nil, err
	}
	idx, err := nodes.New(g, checked.indexing(false), check)
	if err != nil {
		return nil, err
	}
	blocks := checked.pinned.Order(nodes.Blocks(g))
	allowed := cut.AllowedCuts(idx, place.Nodes(idx, len(blocks), nodes.OneGroupEach(blocks)))
	if err := check.Err(); err != nil {
		return nil, err
	}
	spec := o.Devices[0]
	spec.MemoryBytes = 0
	a := PlanOptions{
		Devices: []device.Spec{spec}, Microbatches: min(checked.Microbatches, 2), Reduction: o.Reduction,
		Schedule: passesOf(o), Apart: true, Recompute: o.Recompute, Stop: o.Stop,
	}
	for i, b := range blocks {
		if allowed[i] {
			a.Stages = append(a.Stages, nil)
		}
		last := len(a.Stages) - 1
		a.Stages[last] = append(a.Stages[last], b)
	}
	return New(g, a)
}

// passesOf is a schedule with the passes of the options' one.
func passesOf(o PlanOptions) string {
	if o.pipeline().Splits() {
		return "zb-h1"
	}
	return "1f1b"
}

// BlockSeconds are the times of the blocks of a plan made by [Atoms], from those of
// its segments. The first block of a stage has the time of all.
func (p *Plan) BlockSeconds(seconds Seconds) (BlockSeconds, error) {
	launches, err := p.Launches(StepOptions{Microbatches: p.Microbatches})
	if err != nil {
		return nil, err
	}
	first, stage := map[string]bool{}, map[string]int{}
	for _, s := range p.Stages {
		for i, b := range s.Blocks {
			first[b], stage[b] = i == 0, s.Index
		}
	}
	type key struct {
		device, stage int
		pass          schedule.Kind
	}
	sums := map[key]float64{}
	added, unknown := map[int]bool{}, map[key]bool{}
	add := func(d int) {
		for i := range launches {
			l := &launches[i]
			k := key{d, l.Segment.Stage, l.Segment.Pass}
			t, ok := seconds(d, l.Variant.Graph)
			if !ok {
				unknown[k] = true
			}
			if k.pass != schedule.Update {
				t /= float64(p.Microbatches)
			}
			sums[k] += t + speed.Overhead
		}
	}
	return func(d int, block string, pass schedule.Kind) (float64, bool) {
		if !added[d] {
			added[d] = true
			add(d)
		}
		s, there := stage[block]
		k := key{d, s, pass}
		if !there || unknown[k] {
			return 0, false
		}
		if !first[block] {
			return 0, true
		}
		return sums[k], true
	}, nil
}
