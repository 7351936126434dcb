package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// New cuts a graph. It fails with ErrStages when the options do not fit the
// graph, with ErrMemory when a device is too small, and with ErrGraph when the
// graph itself cannot be cut into phases.
func New(g *graph.Graph, o PlanOptions) (*Plan, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	check := stop.When(o.Stop)
	o.Stop = nil // it is for this call alone
	p, err := newPlan(g, o, check)
	if err == nil && p.shortage().missing > 0 {
		o.exact = true
		p, err = newPlan(g, o, check)
	}
	if err != nil {
		return nil, err
	}
	return p, p.checkMemory()
}

// newPlan makes the plan of least time. Where memory is short even with finer
// segments, it tries to recompute values.
func newPlan(g *graph.Graph, o PlanOptions, check *stop.Check) (*Plan, error) {
	best, err := planOnce(g, o, check, nil)
	if err != nil || !best.worthRecomputing() {
		return best, err
	}
	for _, o.Recompute = range []Recompute{RecomputeCheap, RecomputeBlock} {
		p, err := planOnce(g, o, check, best.rivals(nil))
		if err != nil {
			return nil, err
		}
		if p.better(best) {
			best = p
		}
	}
	return best, nil
}

// worthRecomputing reports whether recomputing may help against a lack of memory
// and is not decided yet.
func (p *Plan) worthRecomputing() bool {
	s, o := p.shortage(), &p.options
	return (s.missing > 0 || s.moved > 0 && p.launches <= mostToCompare) && p.goesBack() && (o.Recompute == "" || o.Recompute == RecomputeNone)
}

// planOnce makes the plan with the options' kind of recomputing; nil if it is not
// better than rival, the cost of a plan that fits.
func planOnce(g *graph.Graph, o PlanOptions, check *stop.Check, rival *shortage) (*Plan, error) {
	g, err := o.Recompute.apply(g, check)
	if err != nil {
		return nil, err
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	idx, err := newIndex(g, o.index(), check)
	if err != nil {
		return nil, err
	}
	c, err := chooseCut(idx, findBlocks(g), o.cutting(idx))
	if err != nil {
		return nil, err
	}
	pl := placeFor(idx, c, &o)
	return assemble(idx, o, c, pl, rival)
}

// cutting is how a graph is cut with these options: for the first replica.
func (o PlanOptions) cutting(idx *index) cutOptions {
	one := o.ofOne()
	return cutOptions{
		devices: one.Devices, pipeline: one.pipeline(), stages: one.Stages, why: one.Why, pin: one.Pin, count: one.Count,
		supports: one.Supports, speeds: one.speeds(), blocks: one.BlockSeconds,
		predict: func(c cut, microbatches int) float64 { return one.predictCut(idx, c, microbatches) },
	}
}

// placeFor places for a cut. Where replicas share the update, it divides it among
// them, and notes in the options the parameters that they update in ranges.
func placeFor(idx *index, c cut, o *PlanOptions) *placement {
	p := place(idx, len(c.device), c.groups())
	moveUnsupported(p, idx, c.device, o.allReplicas())
	if o.Shard == ShardOptimizer && o.Replicas > 1 {
		o.sharding = shardingOf(idx, p, o.Replicas, o.sharding.unit)
		p.shared = shareUpdates(idx, p, o.sharding)
	}
	return p
}

// predictCut is the time of a step by the plan of a cut, without a limit on memory;
// infinite where there is none, which is refused later, by name.
func (o PlanOptions) predictCut(idx *index, c cut, microbatches int) float64 {
	p := &Plan{Graph: idx.g, Microbatches: microbatches, options: o, cut: c, place: placeFor(idx, c, &o), idx: idx}
	if checkEdges(idx, p.place) != nil || p.cutAt(o.grains[0], readyUnits(idx, p.place)) != nil {
		return math.Inf(1)
	}
	step, err := p.Predict(idx.stop.Err)
	if err != nil {
		return math.Inf(1)
	}
	return step.Seconds
}

// Rebind makes the plan for another graph of the same step: the same nodes and
// names with other metadata, as for the smaller last microbatch of an epoch.
// Blocks, nodes and variables keep their places. ask is called now and then; its
// error ends the planning. Nil means never.
//
// Devices estimate the graph only where p needs more memory than there is: where
// it does not, a smaller microbatch does not either, and estimates of deep models
// take seconds.
func (p *Plan) Rebind(g *graph.Graph, ask func() error) (*Plan, error) {
	check := stop.When(ask)
	g, err := p.options.Recompute.apply(g, check)
	if err != nil {
		return nil, err
	}
	if g, err = p.options.withRanges(g, check); err != nil {
		return nil, err
	}
	if err := sameNodes(p.Graph, g, check); err != nil {
		return nil, err
	}
	idx, err := newIndex(g, p.options.index(), check)
	if err != nil {
		return nil, err
	}
	o := p.options
	o.grains, o.settled = []grain{p.grain}, true
	tight := slices.ContainsFunc(p.Memory, func(f Forecast) bool { return f.Tight() })
	if !tight {
		o.Estimate = nil
	}
	q, err := assemble(idx, o, p.cut, p.place, nil)
	if err != nil {
		return nil, err
	}
	q.options.Estimate = p.options.Estimate
	if !tight {
		return q, nil
	}
	return q, q.checkMemory()
}

// withRanges is the graph with updates in ranges as in the plan of these options.
func (o PlanOptions) withRanges(g *graph.Graph, check *stop.Check) (*graph.Graph, error) {
	if !o.ranging.on() && !o.sharding.on() {
		return g, nil
	}
	whole := o
	whole.ranging = ranging{}
	idx, err := newIndex(g, whole.index(), check)
	if err != nil {
		return nil, err
	}
	if cut := cutUpdates(idx, o.ranging, o.sharding); cut != nil {
		g = cut.graph
	}
	return g, check.Err()
}

// RebindBucket is Rebind for samples of another shape. The graph may have other nodes, as
// that of a loop over fewer positions: it is then cut anew, into the same stages, and
// Memory of p covers it. bucket is at least 1, and another one for each shape.
func (p *Plan) RebindBucket(g *graph.Graph, bucket int, ask func() error) (*Plan, error) {
	q, err := p.Rebind(g, ask)
	if errors.Is(err, errOtherNodes) {
		if q, err = p.sameStages(g, ask); err == nil {
			for d := range p.Memory {
				p.Memory[d].cover(q.Memory[d])
			}
		}
	}
	if err == nil {
		q.Bucket = bucket
	}
	return q, err
}

// sameStages plans another graph of the same blocks into the stages of p.
func (p *Plan) sameStages(g *graph.Graph, ask func() error) (*Plan, error) {
	o := p.options
	if o.sharding.on() {
		return nil, fmt.Errorf("%w: updates are shared among replicas, and samples of each length have a graph of their own (loops over positions); set partition.shard: none", ErrGraph)
	}
	o.Stages, o.On, o.Count, o.Stop = nil, nil, 0, ask
	for i := range p.Stages {
		o.Stages, o.On = append(o.Stages, p.Stages[i].Blocks), append(o.On, p.Stages[i].Device)
	}
	return New(g, o)
}

// Forward is the plan of the forward phase alone, cut alike, to find the value that
// is not finite: compile it with device.CompileOptions.CheckFinite. A value that it
// computes outlives its segment only if another segment reads it.
func (p *Plan) Forward() (*Plan, error) {
	g := *p.Graph
	g.Nodes, g.Vars, g.Outputs, g.Assigns, g.Accums = nil, nil, nil, nil, nil
	isRead := newMarks(len(g.Values))
	for _, n := range p.Graph.Nodes {
		if n.Phase != graph.Forward {
			continue
		}
		g.Nodes = append(g.Nodes, n)
		for _, v := range n.In {
			isRead.add(v.ID)
		}
	}
	for _, v := range p.Graph.Vars {
		if isRead.has(v.ID) {
			g.Vars = append(g.Vars, v)
		}
	}
	idx, err := newIndex(&g, p.options.index(), stop.When(nil))
	if err != nil {
		return nil, err
	}
	o := p.options
	o.checkFinite, o.settled = true, true
	q, err := assemble(idx, o, p.cut, p.place, nil)
	if err != nil {
		return nil, err
	}
	q.Bucket = p.Bucket
	return q, q.checkMemory()
}

// assemble runs the passes after the cut. Where memory is short, it tries finer
// grains of segments. The plan is nil if it is not better than rival.
func assemble(idx *index, o PlanOptions, c cut, pl *placement, rival *shortage) (*Plan, error) {
	if err := idx.stop.Err(); err != nil {
		return nil, err
	}
	if err := checkEdges(idx, pl); err != nil {
		return nil, err
	}
	base := &Plan{Graph: idx.g, Microbatches: o.Microbatches, Fewer: c.fewer, options: o, cut: c, place: pl, idx: idx, whole: placedGraph{idx, pl}}
	if o.sharding.on() && !o.settled {
		var err error
		if base, err = base.inRanges(cutUpdates(idx, ranging{}, o.sharding)); err != nil {
			return nil, err
		}
	}
	best, groups, err := base.choose(readyUnits(base.idx, base.place), rival)
	if err != nil || best == nil {
		return nil, err
	}
	best.Stages, err = describeStages(groups, best)
	return best, err
}

// errOtherNodes is the cause where two graphs have other nodes.
var errOtherNodes = fmt.Errorf("%w", ErrGraph)

// sameNodes checks that two graphs differ in metadata only.
func sameNodes(a, b *graph.Graph, c *stop.Check) error {
	if len(a.Nodes) != len(b.Nodes) {
		return fmt.Errorf("%w: the plan is for %d nodes, the other graph has %d; build both with the same config", errOtherNodes, len(a.Nodes), len(b.Nodes))
	}
	same := func(v, w []*graph.Value) bool {
		return slices.EqualFunc(v, w, func(v, w *graph.Value) bool { return v.Name == w.Name })
	}
	for i, x := range stop.Each(c, a.Nodes) {
		y := b.Nodes[i]
		if x.ID != y.ID || x.Op.Kind() != y.Op.Kind() || x.Phase != y.Phase ||
			!same(x.In, y.In) || !same(x.Out, y.Out) {
			return fmt.Errorf("%w: node %d of the plan is %v, of the other graph %v; build both with the same config", ErrGraph, x.ID, x, y)
		}
	}
	return nil
}
