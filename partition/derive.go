package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// Purpose is what a plan is derived for.
type Purpose uint8

// The purposes. The first two are for training with samples of other sizes, the others for
// passes of the same model.
const (
	Smaller Purpose = iota // another size of a microbatch, such as the last of an epoch: the same nodes with other metadata
	Bucket                 // samples of another shape, as a step with them: the graph may have other nodes, as of a loop over fewer positions
	Answers                // another graph of the model, such as its evaluation, one microbatch at a time
	Checked                // the forward phase of the plan's own graph, to find the value that is not finite
)

// DeriveOptions says how a plan follows from another one.
type DeriveOptions struct {
	For     Purpose
	Bucket  int           // where For is Bucket: at least 1, and another one for each shape
	Devices []device.Spec // where For is Answers: in place of the plan's own; stage s of the plan is on Devices[On[s]]
	On      []int
	Stop    func() error // called now and then; its error ends the planning. Nil means never
}

// Derive plans another graph of p's model into the stages of p, each on its device. Blocks
// and variables keep their places.
//
//   - Smaller and Checked keep p's nodes, so what was decided for p holds. A plan for Smaller
//     has no Memory where p has the memory that it takes. Compile a plan for Checked with
//     device.CompileOptions.CheckFinite; a value that it computes outlives its segment only
//     if another segment reads it.
//   - Bucket does so too where the nodes are the same. Otherwise the graph is cut anew into
//     p's stages, and Memory of p covers it from then on.
//   - Answers leaves out a block without a node in the graph, such as dropout. Averages that p
//     has in ranges are joined.
func Derive(p *Plan, g *graph.Graph, o DeriveOptions) (*Plan, error) {
	check := stop.When(o.Stop)
	defer check.Release()
	switch o.For {
	case Answers:
		return p.answers(g, o, check)
	case Bucket:
		return p.bucket(g, o, check)
	case Checked:
		return p.checked(g, check)
	}
	return p.smaller(g, false, check)
}

// smaller plans for the same nodes with other metadata. Where p has the memory that it takes,
// a smaller microbatch has it, too. Then there is no forecast, or, if its memory is to be
// shown, one without the devices' estimates: those of deep models take seconds.
func (p *Plan) smaller(g *graph.Graph, shown bool, check *stop.Check) (*Plan, error) {
	g, err := p.options.pinned.Apply(p.joined(g), check)
	if err != nil {
		return nil, err
	}
	if g, err = p.options.Recompute.Apply(g, check); err != nil {
		return nil, err
	}
	if g, err = p.divided(p.options.cuts.Apply(g, check), check); err != nil {
		return nil, err
	}
	if err := sameNodes(p.Graph, g, check); err != nil {
		return nil, err
	}
	s := p.options
	s.grains = []segment.Grain{p.grain}
	tight := p.AnyTight()
	if s.unforecast = !tight && !shown; !tight {
		s.Estimate = nil
	}
	q, err := p.alike(g, s, check)
	if err != nil {
		return nil, err
	}
	if q.options.Estimate = p.options.Estimate; !tight {
		return q, nil
	}
	return q, q.refused()
}

// joined is the graph that joins averages as p's does, which has them in ranges if it is a plan for Answers. What follows
// in planning sees the joins as nodes of the graph, as it did for p.
func (p *Plan) joined(g *graph.Graph) *graph.Graph {
	if p.updatesDivided() { // its own updates make the ranges
		return g
	}
	return divide.Join(g, p.Graph.Vars)
}

// updatesDivided reports whether the plan itself cuts updates.
func (p *Plan) updatesDivided() bool { return p.ranges.On() || p.shards.On() }

// divided is the graph with updates in ranges as in the plan.
func (p *Plan) divided(g *graph.Graph, check *stop.Check) (*graph.Graph, error) {
	if !p.updatesDivided() {
		return g, nil
	}
	idx, err := nodes.New(g, p.options.indexing(false), check)
	if err != nil {
		return nil, err
	}
	if x := divide.Updates(idx, p.ranges, p.shards); x != nil {
		g = x.Graph
	}
	return g, check.Err()
}

// checked plans the forward phase of p's graph.
func (p *Plan) checked(whole *graph.Graph, check *stop.Check) (*Plan, error) {
	g := *whole
	g.Nodes, g.Vars, g.Outputs, g.Assigns, g.Accums = nil, nil, nil, nil, nil
	isRead := nodes.NewMarks(len(g.Values))
	for _, n := range whole.Nodes {
		if n.Phase != graph.Forward {
			continue
		}
		g.Nodes = append(g.Nodes, n)
		for _, v := range n.In {
			isRead.Add(v.ID)
		}
	}
	for _, v := range whole.Vars {
		if isRead.Has(v.ID) {
			g.Vars = append(g.Vars, v)
		}
	}
	s := p.options
	s.checkFinite = true
	q, err := p.alike(&g, s, check)
	if err != nil {
		return nil, err
	}
	q.Bucket = p.Bucket
	return q, q.refused()
}

// alike plans a graph with nodes of p: those that are there have p's cut and places.
func (p *Plan) alike(g *graph.Graph, s settings, check *stop.Check) (*Plan, error) {
	idx, err := nodes.New(g, p.options.indexing(p.ranges.On()), check)
	if err != nil {
		return nil, err
	}
	s.settled = true
	q, err := assemble(s, decided{index: idx, cut: p.cut, place: p.place, shards: p.shards, ranges: p.ranges}, nil)
	if err == nil {
		q.keepUsed()
	}
	return q, err
}

// bucket plans for samples of another shape.
func (p *Plan) bucket(g *graph.Graph, o DeriveOptions, check *stop.Check) (*Plan, error) {
	q, err := p.smaller(g, true, check)
	if errors.Is(err, errOtherNodes) {
		if q, err = p.sameStages(p.joined(g), o.Stop, check); err == nil {
			for i := range p.Memory { // both have the same stages, and so the same devices
				p.Memory[i].Cover(q.Memory[i])
			}
		}
	}
	if err == nil {
		q.Bucket = o.Bucket
	}
	return q, err
}

// sameStages plans another graph of the same blocks into the stages of p.
func (p *Plan) sameStages(g *graph.Graph, ask func() error, check *stop.Check) (*Plan, error) {
	o := p.options.PlanOptions
	if p.shards.On() {
		return nil, fmt.Errorf("%w: replicas cannot share the update while each sample length has a graph of its own, as loops over positions do; set partition.shard: none", ErrGraph)
	}
	o.Stages, o.On, o.Count, o.Stop = nil, nil, 0, ask
	stages, err := p.stagesOf(g, check)
	if err != nil {
		return nil, err
	}
	for i, blocks := range stages {
		if len(blocks) > 0 {
			o.Stages, o.On = append(o.Stages, blocks), append(o.On, p.Stages[i].Device)
		}
	}
	return New(g, o)
}

// answers plans another graph of the model, for one microbatch at a time.
func (p *Plan) answers(g *graph.Graph, with DeriveOptions, check *stop.Check) (*Plan, error) {
	g = divide.Join(g, p.Graph.Vars)
	stages, err := p.stagesOf(g, check)
	if err != nil {
		return nil, err
	}
	o := PlanOptions{Devices: with.Devices, Estimate: p.options.Estimate, Microbatches: 1, Stop: with.Stop, Pin: map[string]int{}, pinned: p.options.pinned}
	if with.Devices == nil {
		o.Devices = p.options.ofOne().Devices
	}
	for i, blocks := range stages {
		if len(blocks) == 0 {
			continue
		}
		on := p.Stages[i].Device
		if with.Devices != nil {
			on = with.On[i]
		}
		for _, b := range blocks {
			if o.pinned.Is(b) {
				o.Pin[b] = on
			}
		}
		o.Stages, o.On = append(o.Stages, blocks), append(o.On, on)
	}
	return New(g, o)
}

// stagesOf are the blocks of another graph of the model, by p's stages. A piece that p does not have, since the graph
// lacks the pinned op before it, is where the first of its block is, or else the one before it if that is later.
func (p *Plan) stagesOf(g *graph.Graph, check *stop.Check) ([][]string, error) {
	g, err := p.options.pinned.Apply(g, check)
	if err != nil {
		return nil, err
	}
	at, begins := map[string]int{}, map[string]int{}
	for i, b := range p.cut.Blocks {
		at[b] = p.cut.StageOf[i]
		if whole := p.options.pinned.Whole(b); begins[whole] == 0 {
			begins[whole] = at[b] + 1
		}
	}
	stages, before := make([][]string, len(p.Stages)), 0
	for _, b := range p.options.pinned.Order(nodes.Blocks(g)) {
		s, ok := at[b]
		if first := begins[p.options.pinned.Whole(b)]; !ok && first > 0 {
			s, ok = max(first-1, before), true
		}
		if ok {
			stages[s], before = append(stages[s], b), s
		}
	}
	return stages, nil
}

// errOtherNodes is the cause where two graphs have other nodes.
var errOtherNodes = fmt.Errorf("%w", ErrGraph)

// sameNodes checks that two graphs differ in metadata only.
func sameNodes(a, b *graph.Graph, c *stop.Check) error {
	if len(a.Nodes) != len(b.Nodes) {
		return fmt.Errorf("%w: the plan was made for a graph of %d nodes, but this graph has %d; build both with the same config", errOtherNodes, len(a.Nodes), len(b.Nodes))
	}
	same := func(v, w []*graph.Value) bool {
		return slices.EqualFunc(v, w, func(v, w *graph.Value) bool { return v.Name == w.Name })
	}
	for i, x := range stop.Each(c, a.Nodes) {
		y := b.Nodes[i]
		if x.ID != y.ID || x.Op.Kind() != y.Op.Kind() || x.Phase != y.Phase ||
			!same(x.In, y.In) || !same(x.Out, y.Out) {
			return fmt.Errorf("%w: node %d is %v in the plan's graph, but %v in this one; build both with the same config", ErrGraph, x.ID, x, y)
		}
	}
	return nil
}
