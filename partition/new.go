package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/footprint"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/recompute"
	"github.com/berth-ml/berth/partition/segment"
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
	if err == nil && p.shortage().Missing > 0 {
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
	for _, o.Recompute = range []recompute.Kind{recompute.Cheap, recompute.Block} {
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
	return (s.Missing > 0 || s.Moved > 0 && p.launches <= mostToCompare) && p.goesBack() && (o.Recompute == "" || o.Recompute == recompute.None)
}

// planOnce makes the plan with the options' kind of recomputing; nil if it is not
// better than rival, the cost of a plan that fits.
func planOnce(g *graph.Graph, o PlanOptions, check *stop.Check, rival *forecast.Shortage) (*Plan, error) {
	g, err := o.Recompute.Apply(g, check)
	if err != nil {
		return nil, err
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	idx, err := nodes.New(g, o.index(), check)
	if err != nil {
		return nil, err
	}
	c, err := cut.Choose(idx, nodes.Blocks(g), o.cutting(idx))
	if err != nil {
		return nil, err
	}
	pl := placeFor(idx, c, &o)
	return assemble(idx, o, c, pl, rival)
}

// cutting is how a graph is cut with these options: for the first replica.
func (o PlanOptions) cutting(idx *nodes.Index) cut.Options {
	one := o.ofOne()
	return cut.Options{
		Devices: one.Devices, Pipeline: one.pipeline(), Stages: one.Stages, Why: one.Why, Pin: one.Pin, Count: one.Count,
		Supports: one.Supports, Speeds: one.speeds(), Blocks: one.BlockSeconds,
		Predict: func(c cut.Cut, microbatches int) float64 { return one.predictCut(idx, c, microbatches) },
	}
}

// placeFor places for a cut. Where replicas share the update, it divides it among
// them, and notes in the options the parameters that they update in ranges.
func placeFor(idx *nodes.Index, c cut.Cut, o *PlanOptions) *place.Placement {
	p := place.Nodes(idx, len(c.Device), c.Groups())
	place.MoveUnsupported(p, idx, c.Device, o.allReplicas())
	if o.Shard == ShardOptimizer && o.Replicas > 1 {
		o.sharding = divide.ShardsOf(idx, p, o.Replicas, o.sharding.Unit)
		p.Shared = divide.Share(idx, p, o.sharding)
	}
	return p
}

// predictCut is the time of a step by the plan of a cut, without a limit on memory;
// infinite where there is none, which is refused later, by name.
func (o PlanOptions) predictCut(idx *nodes.Index, c cut.Cut, microbatches int) float64 {
	p := &Plan{Graph: idx.Graph, Microbatches: microbatches, options: o, cut: c, place: placeFor(idx, c, &o), idx: idx}
	if cut.CheckEdges(idx, p.place) != nil || p.cutAt(o.grains[0], segment.NewGroups(idx, p.place)) != nil {
		return math.Inf(1)
	}
	step, err := p.Predict(idx.Stop.Err)
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
	g, err := p.options.Recompute.Apply(g, check)
	if err != nil {
		return nil, err
	}
	if g, err = p.options.withRanges(g, check); err != nil {
		return nil, err
	}
	if err := sameNodes(p.Graph, g, check); err != nil {
		return nil, err
	}
	idx, err := nodes.New(g, p.options.index(), check)
	if err != nil {
		return nil, err
	}
	o := p.options
	o.grains, o.settled = []segment.Grain{p.grain}, true
	tight := slices.ContainsFunc(p.Memory, func(f forecast.Forecast) bool { return f.Tight() })
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
	if !o.ranging.On() && !o.sharding.On() {
		return g, nil
	}
	whole := o
	whole.ranging = divide.Ranges{}
	idx, err := nodes.New(g, whole.index(), check)
	if err != nil {
		return nil, err
	}
	if cut := divide.Updates(idx, o.ranging, o.sharding); cut != nil {
		g = cut.Graph
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
				p.Memory[d].Cover(q.Memory[d])
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
	if o.sharding.On() {
		return nil, fmt.Errorf("%w: updates are shared among replicas, and samples of each length have a graph of their own (loops over positions); set partition.shard: none", nodes.ErrGraph)
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
	isRead := nodes.NewMarks(len(g.Values))
	for _, n := range p.Graph.Nodes {
		if n.Phase != graph.Forward {
			continue
		}
		g.Nodes = append(g.Nodes, n)
		for _, v := range n.In {
			isRead.Add(v.ID)
		}
	}
	for _, v := range p.Graph.Vars {
		if isRead.Has(v.ID) {
			g.Vars = append(g.Vars, v)
		}
	}
	idx, err := nodes.New(&g, p.options.index(), stop.When(nil))
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
func assemble(idx *nodes.Index, o PlanOptions, c cut.Cut, pl *place.Placement, rival *forecast.Shortage) (*Plan, error) {
	if err := idx.Stop.Err(); err != nil {
		return nil, err
	}
	if err := cut.CheckEdges(idx, pl); err != nil {
		return nil, err
	}
	base := &Plan{Graph: idx.Graph, Microbatches: o.Microbatches, Fewer: c.Fewer, options: o, cut: c, place: pl, idx: idx, whole: placedGraph{idx, pl}}
	if o.sharding.On() && !o.settled {
		var err error
		if base, err = base.inRanges(divide.Updates(idx, divide.Ranges{}, o.sharding)); err != nil {
			return nil, err
		}
	}
	best, groups, err := base.choose(segment.NewGroups(base.idx, base.place), rival)
	if err != nil || best == nil {
		return nil, err
	}
	best.Stages, err = describeStages(groups, best)
	return best, err
}

// errOtherNodes is the cause where two graphs have other nodes.
var errOtherNodes = fmt.Errorf("%w", nodes.ErrGraph)

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
			return fmt.Errorf("%w: node %d of the plan is %v, of the other graph %v; build both with the same config", nodes.ErrGraph, x.ID, x, y)
		}
	}
	return nil
}

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
