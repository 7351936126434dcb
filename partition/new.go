package partition

import (
	"maps"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/footprint"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/parts"
	"github.com/berth-ml/berth/partition/pieces"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/segment"
)

// New cuts a graph. It fails with ErrStages when the options do not fit the
// graph, with ErrMemory when a device is too small, and with ErrGraph when the
// graph itself cannot be cut into phases.
func New(g *graph.Graph, o PlanOptions) (*Plan, error) {
	s, err := o.checked()
	if err != nil {
		return nil, err
	}
	if err := s.findPieces(g); err != nil {
		return nil, err
	}
	check := stop.When(s.Stop)
	s.Stop = nil // Stop ends this call only: the plan keeps s, and is used after its run was stopped
	defer check.Release()
	p, err := newPlan(g, s, check)
	if err == nil && p.shortage().Missing > 0 {
		exact := s
		exact.exact = true
		p, err = newPlan(g, exact, check)
	}
	if err != nil {
		return nil, err
	}
	p.keepUsed()
	err = p.refused()
	if e, ok := err.(*MemoryError); ok {
		e.search = search{g, s, o}
	}
	p.asked = asked{g, o}
	p.asked.o.Stop = nil
	return p, err
}

// findPieces finds the ops that are pinned.
func (s *settings) findPieces(g *graph.Graph) (err error) {
	if s.pinned == nil && len(s.Pin) > 0 {
		if s.pinned, err = pieces.Find(g, slices.Collect(maps.Keys(s.Pin))); err != nil {
			return refusedPin(err)
		}
	}
	return nil
}

// refusedPin is the error about an op that cannot be pinned.
func refusedPin(err error) error {
	name := ""
	if e, ok := err.(*pieces.RefusedError); ok {
		name = e.Name
	}
	return cut.AsPin(name, err)
}

// CheckPins refuses pins as [New] does for a step's graph: those of names that are neither blocks nor ops, and of ops
// that stay with others. pins has devices by their IDs, which need not be there.
func CheckPins(g *graph.Graph, pins map[string]string) error {
	found, err := pieces.Find(g, slices.Collect(maps.Keys(pins)))
	if err != nil {
		return refusedPin(err)
	}
	return cut.CheckPins(g, found, pins)
}

// PinsIn are the pins of a step's names by the names of a graph that answers: of its blocks, and of those of its ops that can be
// apart from their block.
func PinsIn(g *graph.Graph, pins map[string]int) map[string]int {
	in := map[string]int{}
	for name, inStep := range pieces.In(g, slices.Collect(maps.Keys(pins))) {
		in[name] = pins[inStep]
	}
	return in
}

// keepUsed drops the forecasts of devices without a stage, and those that were not made. An evaluation has a plan for each
// group of devices, and each was made for all devices: those of 2,048 groups would hold
// four million forecasts.
func (p *Plan) keepUsed() {
	used, all, of := p.Devices(), p.Memory, p.forecastFor()
	if len(used) == len(all) && of == nil {
		return
	}
	p.Memory = nil
	for i := range all {
		if _, has := slices.BinarySearch(used, all[i].Device); has && (of == nil || of[all[i].Device] == p.options.Rank) {
			p.Memory = append(p.Memory, all[i])
		}
	}
}

// refusals are the reasons to refuse a whole plan. [New] and [Derive] ask them in this order
// once all passes have run, and fail with the first error. Each gives nil, or an error that
// wraps a cause of this package and says what to do.
var refusals = []func(p *Plan) error{
	(*Plan).lacksMemory,
}

// refused is the error of the first refusal; nil if there is none.
func (p *Plan) refused() error {
	for _, reason := range refusals {
		if err := reason(p); err != nil {
			return err
		}
	}
	return nil
}

// newPlan makes the plan of least time. Where memory is short even with finer
// segments, it tries to recompute values, and where no plan fits, to compute in parts.
func newPlan(g *graph.Graph, s settings, check *stop.Check) (*Plan, error) {
	best, err := planOnce(g, s, check, nil)
	if err != nil {
		return best, err
	}
	if best.worthRecomputing() {
		for _, r := range []Recompute{RecomputeCheap, RecomputeBlock} {
			s := s
			s.Recompute = r
			p, err := planOnce(g, s, check, best.rivals(nil))
			if err != nil {
				return nil, err
			}
			if p.better(best) {
				best = p
			}
		}
	}
	if best.shortage().Missing > 0 {
		return best.inParts(g, s, check)
	}
	return best, nil
}

// inParts is the plan with the fewest parts of what needs much memory that fits, or else the one that
// lacks the least: p or one in parts.
func (p *Plan) inParts(g *graph.Graph, s settings, check *stop.Check) (*Plan, error) {
	best, limit := p, leastLimit(s.Devices)
	s.scratch = s.scratchOfNodes(check)
	for s.pieces = 2; ; s.pieces *= 2 {
		more := parts.Choose(g, limit, 2*s.pieces, s.scratch, check).On()
		switch c := parts.Choose(g, limit, s.pieces, s.scratch, check); {
		case !c.On():
			return best, check.Err()
		case c.Least > limit && more:
			continue // it cannot fit
		}
		q, err := planOnce(g, s, check, best.rivals(nil))
		if err != nil {
			return nil, err
		}
		if q.better(best) {
			best = q
		}
		if !more || best.shortage().Missing == 0 {
			return best, check.Err()
		}
	}
}

// worthRecomputing reports whether recomputing may help against a lack of memory
// and is not decided yet.
func (p *Plan) worthRecomputing() bool {
	s, o := p.shortage(), &p.options
	return (s.Missing > 0 || s.Moved > 0 && p.launches <= mostToCompare) && p.goesBack() && (o.Recompute == "" || o.Recompute == RecomputeNone)
}

// scratchOfNodes finds the working memory of a node alone, the most on a device of any kind.
func (s settings) scratchOfNodes(check *stop.Check) func(n *graph.Node) int64 {
	if s.Estimate == nil {
		return func(*graph.Node) int64 { return 0 }
	}
	first := map[string]int{} // device of each kind
	for d := range s.Devices {
		if _, seen := first[s.Devices[d].Kind]; !seen {
			first[s.Devices[d].Kind] = d
		}
	}
	known := map[*graph.Node]int64{}
	return func(n *graph.Node) int64 {
		bytes, ok := known[n]
		if ok {
			return bytes
		}
		g := &graph.Graph{Name: n.Out[0].Name, Nodes: []*graph.Node{n}, Outputs: n.Out}
		for _, v := range n.In {
			if !slices.Contains(g.Inputs, v) {
				g.Inputs = append(g.Inputs, v)
			}
		}
		for _, d := range first {
			if m, err := s.Estimate(d, g, device.CompileOptions{CheckFinite: s.checkFinite, Stop: check.Err}); err == nil { // an error is that of the forecast
				bytes = max(bytes, m.Temporary)
			}
		}
		known[n] = bytes
		return bytes
	}
}

// planOnce runs the passes in their order, with the options' kind of recomputing, and in the parts of the settings. rival is
// the cost of a plan that fits, nil if none is known yet. A plan that cannot cost less
// than rival is given up: nil.
func planOnce(g *graph.Graph, s settings, check *stop.Check, rival *forecast.Shortage) (*Plan, error) {
	g, err := s.pinned.Apply(g, check) // 0
	if err != nil {
		return nil, err
	}
	if g, err = s.Recompute.Apply(g, check); err != nil {
		return nil, err
	}
	if s.pieces > 0 {
		s.cuts = parts.Choose(g, leastLimit(s.Devices), s.pieces, s.scratch, check)
		s.scratch = nil
		g = s.cuts.Apply(g, check)
	}
	if err := check.Err(); err != nil {
		return nil, err
	}
	var d decided
	if d.index, err = nodes.New(g, s.indexing(false), check); err != nil { // 1
		return nil, err
	}
	if d.cut, err = cut.Choose(d.index, s.pinned.Order(nodes.Blocks(g)), s.cutting(d.index)); err != nil { // 2
		return nil, err
	}
	d.place, d.shards = s.placeFor(d.index, d.cut) // 3, and 4 for replicas
	return assemble(s, d, rival)
}

// cutting is how a graph is cut with these options: for the first replica.
func (s settings) cutting(idx *nodes.Index) cut.Options {
	s.PlanOptions = s.ofOne()
	blocks, ops := s.pins()
	return cut.Options{
		Devices: s.Devices, Pipeline: s.pipeline(), Stages: s.Stages, Why: s.Why, Pin: blocks, Pieces: s.pinned, Ops: ops, Count: s.Count,
		Supports: s.Supports, Speeds: s.speeds(), Blocks: s.BlockSeconds,
		Predict: func(c cut.Cut, microbatches int) float64 { return s.predictCut(idx, c, microbatches) },
	}
}

// pins are the devices of pinned blocks, and those of pinned ops.
func (s settings) pins() (blocks, ops map[string]int) {
	blocks, ops = map[string]int{}, map[string]int{}
	for name, d := range s.Pin {
		if s.pinned.Is(name) {
			ops[name] = d
		} else {
			blocks[name] = d
		}
	}
	return blocks, ops
}

// placeFor assigns nodes and variables to the stages of a cut. With ShardOptimizer it also
// assigns each update to a replica; shards are the parameters whose update is cut into ranges.
func (s settings) placeFor(idx *nodes.Index, c cut.Cut) (p *place.Placement, shards divide.Shards) {
	p = place.Nodes(idx, len(c.Device), c.Groups())
	place.MoveUnsupported(p, idx, c.Device, s.allReplicas())
	if s.Shard == ShardOptimizer && s.Replicas > 1 {
		shards = divide.ShardsOf(idx, p, s.Replicas, s.unit)
		p.Shared = divide.Share(idx, shards)
	}
	return p, shards
}

// predictCut is the time of a step by the plan of a cut, without a limit on memory;
// infinite where there is none, which is refused later, by name.
func (s settings) predictCut(idx *nodes.Index, c cut.Cut, microbatches int) float64 {
	pl, _ := s.placeFor(idx, c)
	p := &Plan{Graph: idx.Graph, Microbatches: microbatches, options: s, decided: decided{index: idx, cut: c, place: pl}}
	if cut.CheckEdges(idx, pl) != nil || p.cutAt(s.grains[0], segment.NewGroups(idx, pl)) != nil {
		return math.Inf(1)
	}
	step, err := p.Predict(idx.Stop.Err)
	if err != nil {
		return math.Inf(1)
	}
	return step.Seconds
}

// assemble runs the passes after the cut. Where memory is short, it tries finer
// grains of segments. The plan is nil if it is not better than rival.
func assemble(s settings, d decided, rival *forecast.Shortage) (*Plan, error) {
	if err := d.index.Stop.Err(); err != nil {
		return nil, err
	}
	if err := d.cut.Check(d.index, d.place); err != nil {
		return nil, err
	}
	d.whole = placed{d.index, d.place}
	base := &Plan{Graph: d.index.Graph, Microbatches: s.Microbatches, Fewer: d.cut.Fewer, options: s, decided: d}
	if d.shards.On() && !s.settled {
		var err error
		if base, err = base.inRanges(divide.Updates(d.index, d.ranges, d.shards)); err != nil {
			return nil, err
		}
	}
	best, groups, err := base.choose(segment.NewGroups(base.index, base.place), rival)
	if err != nil || best == nil {
		return nil, err
	}
	best.Stages, err = describeStages(groups, best)
	return best, err
}

// describeStages ends a plan: the blocks, arithmetic, traffic and memory of each
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
		if t.Rate == PerMicrobatch {
			stages[t.To].BytesIn += t.Bytes
			stages[t.From].BytesOut += t.Bytes
		}
	}
	return stages, g.Index.Stop.Err()
}

// boundOf lists, by stage, the variables and inputs that its segments read or
// write.
func boundOf(segments []Segment, stages int) [][]*graph.Value {
	bound := make([][]*graph.Value, stages)
	for _, seg := range segments {
		for _, slots := range [][]Slot{seg.First.In, seg.First.Out} {
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
