package partition

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/simulate"
	"github.com/berth-ml/berth/partition/step"
)

// Plan is a graph cut into segments. It is immutable and safe for concurrent
// use.
type Plan struct {
	Graph  *graph.Graph // the graph that was cut: with the nodes that recompute values, and with parts in place of large ones
	Stages []Stage
	// Segments are in the order of one microbatch: F from the first stage to the last, B
	// and then W of each stage from the last to the first, and U by level, within a level
	// by stage.
	Segments     []Segment
	Transfers    []Transfer
	Microbatches int
	Memory       []Forecast // of the devices that have a stage, in their order; of more than 16 ranks often those of PlanOptions.Rank alone
	Fewer        *Fewer     // nil where there are as many stages as asked for
	// Bucket numbers the plans of one program. A program has a plan for each shape of
	// samples, such as each length of a text. 0 is the first plan; the others are made by
	// [Derive].
	Bucket int

	options settings
	asked   asked
	decided
}

// asked is what [New] was called with, to plan anew. It is zero in a plan that is derived from another one.
type asked struct {
	g *graph.Graph
	o PlanOptions // without Stop
}

// decided is what the passes have decided, in their order. A pass reads it, and none
// decides again what is there.
type decided struct {
	index    *nodes.Index     // pass 1: of Plan.Graph
	cut      cut.Cut          // pass 2
	place    *place.Placement // pass 3
	whole    placed           // before pass 4: the graph with undivided updates, from which each try of pass 4 begins
	shards   divide.Shards    // pass 4: the parameters of which each replica updates a range
	ranges   divide.Ranges    // pass 4: the updates that run range after range, to need less memory at once
	grain    segment.Grain    // pass 5
	launches int              // pass 6: of a full step
}

// placed is a graph and where its nodes are.
type placed struct {
	index *nodes.Index
	place *place.Placement
}

// Stage is a partition in pipeline order.
type Stage struct {
	Index      int
	Device     int // index in PlanOptions.Devices
	Blocks     []string
	Layers     []*graph.Layer          // by model position
	Parameters int64                   // elements of the parameters that live here
	Flops      int64                   // of a microbatch's forward and backward phases
	Recomputed int64                   // the part of Flops that computes values a second time
	BytesIn    int64                   // per microbatch, read from other stages
	BytesOut   int64                   // per microbatch, read by other stages, once per reader
	Memory     [device.NumUsages]int64 // bytes of its values, as the search of a cut adds them up; Plan.Memory has what a step takes
	Cause      string                  // why these blocks are here
}

// PerMicrobatch reports whether a value has an instance for each microbatch of
// a step; otherwise it has one for the step.
func (p *Plan) PerMicrobatch(v *graph.Value) bool { return nodes.PerMicrobatch(v) }

// Usage is the usage that a value's memory counts as: Weight for parameters and
// statistics, Cache for caches, OptState for all other variables, Input, Grad for values that the
// update reads, Activation for the rest.
func (p *Plan) Usage(v *graph.Value) device.Usage { return p.index.Usage(v) }

// AnyTight reports whether the memory of some device is below the plan's peak there.
func (p *Plan) AnyTight() bool {
	return slices.ContainsFunc(p.Memory, func(f Forecast) bool { return f.Tight() })
}

// deviceOf is the index of the device of a stage's replica.
func (p *Plan) deviceOf(stage, replica int) int {
	return p.program().DeviceOf(stage, replica)
}

// DevicesOf lists the devices of a stage, by replica: their indices in
// PlanOptions.Devices.
func (p *Plan) DevicesOf(stage int) (list []int) {
	for r := range p.Replicas() {
		list = append(list, p.deviceOf(stage, r))
	}
	return list
}

// Devices lists the devices that have a stage: their indices in
// PlanOptions.Devices.
func (p *Plan) Devices() (list []int) {
	for s := range p.cut.Device {
		list = append(list, p.DevicesOf(s)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// BaseStages is the number of stages without those that are there for a pinned op, and for what is behind it: as many as
// were asked for.
func (p *Plan) BaseStages() int { return p.cut.Base(p.options.pinned) }

// Replicas is the number of replicas of each stage.
func (p *Plan) Replicas() int { return max(1, p.options.Replicas) }

// StepOptions describes a step of a plan.
type StepOptions struct {
	// Microbatches of the step, at least 1.
	Microbatches int
	// Tail is the plan of the last microbatch and of the update, made by [Derive].
	// Nil means that they are as in the plan.
	Tail *Plan
	// Fetch keeps the graph's outputs after the step.
	Fetch bool
	// Of is, per device, the rank that has it; nil: all launches are listed. Otherwise those of Rank are, and of others
	// only those that it must know of, with the tensors that it does: what it sends, is sent and drops follows from them.
	Of   []int
	Rank int
}

// Instance is the instance of v for a microbatch. tail tells that p is a step's
// tail.
func (p *Plan) Instance(v *graph.Value, microbatch int, tail bool) Instance {
	return p.program().Instance(v, microbatch, tail)
}

// Launches lists the launches of a step in the order in which they are queued:
// that of the schedule, then the update, level by level over all stages.
func (p *Plan) Launches(o StepOptions) ([]Launch, error) {
	return p.program().Launches(stop.When(nil), o.inner())
}

// LaunchesOnce lists the launches of a full step, but of each variant on each device the first alone.
func (p *Plan) LaunchesOnce() ([]Launch, error) {
	return p.program().LaunchesOnce([]int{p.Microbatches})
}

// Exchange is what ranks send each other in a step. of is, per device, the rank that has it.
func (p *Plan) Exchange(o StepOptions, of []int) (*Exchange, error) {
	launches, err := p.Launches(o)
	if err != nil {
		return nil, err
	}
	return NewExchange(launches, of), nil
}

// inner is the step of a program.
func (o StepOptions) inner() step.Options {
	x := step.Options{Microbatches: o.Microbatches, Fetch: o.Fetch, Of: o.Of, Rank: o.Rank}
	if o.Tail != nil {
		x.Tail = o.Tail.program()
	}
	return x
}

// program is what the launches of the plan's steps follow from.
func (p *Plan) program() *step.Program {
	return &step.Program{Index: p.index, Segments: p.Segments, Devices: p.cut.Device, PerReplica: p.options.pipeline().PerReplica(), Ranks: p.options.Ranks, Bucket: p.Bucket, Schedule: p.ScheduleOf}
}

// stepSizes lists the microbatches of a full step and, where there is one, of the
// smaller last step of an epoch.
func (p *Plan) stepSizes() []int {
	if last := p.options.LastMicrobatches; last > 0 && last < p.Microbatches {
		return []int{p.Microbatches, last}
	}
	return []int{p.Microbatches}
}

// forecaster forecasts the memory of the plan's steps.
func (p *Plan) forecaster() *forecast.Forecaster {
	o := &p.options
	return forecast.New(p.program(), forecast.Options{Specs: o.Devices, Estimate: o.Estimate, CheckFinite: o.checkFinite, Sizes: p.stepSizes(), Replicas: p.Replicas(), Of: p.forecastFor(), Rank: o.Rank})
}

// Predict simulates a step among others of a run. ask is called now and then; its error
// ends the simulation. Nil means never.
func (p *Plan) Predict(ask func() error) (*Prediction, error) {
	check := stop.When(ask)
	if o := &p.options; o.Ranks != nil && slices.Max(o.Ranks) >= simulate.FewRanks && !p.AnyTight() {
		return simulate.Walk(check, o.speeds(), p.walk(check))
	}
	launches, err := p.program().Launches(check, step.Options{Microbatches: p.Microbatches})
	if err != nil {
		return nil, err
	}
	var traces []*forecast.Trace
	if slices.ContainsFunc(p.Memory, func(f Forecast) bool { return f.Moved() > 0 }) {
		if traces, err = p.forecaster().Traces(launches, nil); err != nil {
			return nil, err
		}
	}
	return simulate.Step(check, p.options.speeds(), launches, p.Memory, traces)
}

// Linked is the plan with another link between ranks, which [Plan.Predict] counts with.
func (p *Plan) Linked(l Link) *Plan {
	q := *p
	q.options.Link = l
	return &q
}

// walk goes through the launches of a step.
func (p *Plan) walk(check *stop.Check) func(visit func(*Launch)) error {
	return func(visit func(*Launch)) error {
		return p.program().Walk(check, step.Options{Microbatches: p.Microbatches}, visit)
	}
}

// busySeconds is, per device, the time for which it works in a step.
func (p *Plan) busySeconds() []float64 {
	list, err := simulate.Busy(p.options.speeds(), p.walk(stop.When(nil)), p.Memory)
	if err != nil {
		panic("BUG: a plan without launches: " + err.Error())
	}
	return list
}

// ScheduleOf is the order in which a step of that many microbatches runs. A plan
// without a backward pass needs none: it runs forward.
func (p *Plan) ScheduleOf(microbatches int) (schedule.Schedule, error) {
	o := p.options
	if !p.goesBack() {
		o.Schedule, o.Order = "forward", nil
	}
	s, err := o.pipeline().Schedule(p.cut.Device, microbatches)
	if o.Shard != ShardOptimizer {
		s = s.FirstUpdates()
	}
	if err == nil && p.goesBack() && !s.Has(schedule.Backward) {
		return s, fmt.Errorf("%w: the schedule %q has no backward pass; use another one for training", ErrStages, s.Name)
	}
	return s, err
}

// goesBack reports whether the plan has a backward pass.
func (p *Plan) goesBack() bool {
	return slices.ContainsFunc(p.Segments, func(s Segment) bool { return s.Passes.Has(schedule.Backward) || s.Passes.Has(schedule.Weights) })
}

// ActionFlops are costs to simulate the plan's schedule with. An action, such as B of stage
// 2, costs the flops of the nodes that it runs. A segment of several passes, such as FB,
// counts each node in its own pass. An update costs nothing.
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
