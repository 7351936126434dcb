package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
)

// Choice is a plan that was chosen for a step, with what a run has to keep of it. The run owns it.
type Choice struct {
	Plan   *partition.Plan
	Refit  bool    // it is not the plan that the config asks for, which does not fit
	Picked *Picked // nil unless partition: auto has picked it without limits
}

// Picked is what partition: auto picked without limits on memory. A percentage of memory is
// of that plan's peaks, so the plan within the limits is cut alike.
type Picked struct {
	stages, replicas int
	schedule         string
}

// Choose chooses the plan of a step's graph: the run's plan so far, the one that the config asks
// for, or the one with the shortest predicted step.
func (p *Planner) Choose(ctx context.Context, g *graph.Graph) (Choice, error) {
	if p.Uneven != nil {
		return p.evenly(ctx, g)
	}
	if c, err := p.before(ctx, g); c.Plan != nil || err != nil {
		if err == nil {
			err = p.timeChosen(ctx, c.Plan)
		}
		return c, err
	}
	o, err := p.optionsOf(ctx, g, p.Steps.Microbatches)
	if err != nil {
		return Choice{}, err
	}
	if p.Config.Partition.Plan == configs.PlanAuto {
		return p.freely(ctx, g, o)
	}
	c, err := p.asked(ctx, g, o)
	if err != nil {
		return Choice{}, err
	}
	return c, p.time(ctx, c.Plan)
}

// asked chooses the plan that the config asks for. Where its keys give way and that plan does
// not fit, it is the fastest plan that does.
func (p *Planner) asked(ctx context.Context, g *graph.Graph, o partition.PlanOptions) (Choice, error) {
	plan, err := partition.New(g, o)
	if !errors.Is(err, partition.ErrMemory) || !p.givesWay("partition.replicas") || !p.givesWay("partition.stages") || !p.givesWay("partition.schedule") {
		return Choice{Plan: plan}, err
	}
	list, failed := p.candidates(ctx, g, o)
	if failed != nil {
		return Choice{}, failed
	}
	best, none := partition.Choose(list)
	if none != nil {
		return Choice{}, err
	}
	return Choice{Plan: best.Plan, Refit: true}, nil
}

// freely chooses for partition: auto. Within limits that are percentages of a plan, it is that
// plan unless it does not fit.
func (p *Planner) freely(ctx context.Context, g *graph.Graph, o partition.PlanOptions) (Choice, error) {
	if k := p.Picked; k != nil && !p.Lost {
		within := o
		within.Count, within.Replicas, within.Schedule = k.stages, k.replicas, k.schedule
		plan, err := partition.New(g, within)
		if err == nil || !errors.Is(err, partition.ErrMemory) {
			return Choice{Plan: plan}, err
		}
	}
	list, err := p.candidates(ctx, g, o)
	if err != nil {
		return Choice{}, err
	}
	best, err := partition.Choose(list)
	if err != nil {
		return Choice{}, err
	}
	c := Choice{Plan: best.Plan}
	if p.Unlimited {
		c.Picked = &Picked{best.Stages, best.Replicas, best.Schedule}
	}
	return c, nil
}

// evenly chooses other blocks for the stages that there are, where the times of devices have turned out to be others. Times
// that were measured before do not count: those of other segments are not known.
func (p *Planner) evenly(ctx context.Context, g *graph.Graph) (Choice, error) {
	o, err := p.Options(ctx)
	if err != nil {
		return Choice{}, err
	}
	if o.Pin, err = p.pins(); err != nil {
		return Choice{}, err
	}
	o.Count, o.Replicas, o.Schedule = p.Uneven.Plan.BaseStages(), p.Uneven.Plan.Replicas(), p.Uneven.Plan.Schedule()
	o.Order, o.Seconds, o.Slow = nil, nil, p.Uneven.Slow // the config's order of steps may have given way
	plan, err := partition.New(g, o)
	return Choice{Plan: plan}, err
}

// optionsOf are the options of plans of a graph, for a step of so many microbatches,
// with the times of its blocks if the config asks for measured ones.
func (p *Planner) optionsOf(ctx context.Context, g *graph.Graph, microbatches int) (partition.PlanOptions, error) {
	o, err := p.Options(ctx)
	if err != nil {
		return o, err
	}
	o.Microbatches, o.LastMicrobatches = microbatches, p.Steps.LastOf(microbatches)
	if o.Pin, err = p.pins(); err != nil || !p.measures() {
		return o, err
	}
	atoms, err := partition.Atoms(g, o)
	if err != nil {
		return o, err
	}
	// The cut, and so the bits of devices of several kinds, is the same op by op.
	if err := p.Times.Measure(ctx, p.Devices, atoms, true, false); err != nil {
		return o, err
	}
	o.BlockSeconds, err = atoms.BlockSeconds(func(d int, g *graph.Graph) (float64, bool) { return p.Times.Seconds(o.Devices, d, g, false) })
	return o, err
}

// candidates plans for each number of stages and replicas and each schedule.
func (p *Planner) candidates(ctx context.Context, g *graph.Graph, o partition.PlanOptions) ([]partition.Candidate, error) {
	list, err := partition.Candidates(g, o)
	if err != nil || !p.measures() {
		return list, err
	}
	for i := range list {
		if plan := list[i].Plan; plan != nil {
			if err := p.time(ctx, plan); err != nil {
				return nil, err
			}
		}
	}
	return list, partition.PredictAll(list, stop.Of(ctx))
}

// measures reports whether segments are to be timed. On shared devices other runs
// work, so nothing is timed there.
func (p *Planner) measures() bool {
	switch p.Config.Partition.Costs {
	case configs.CostsMeasured:
		return !p.Shared
	case configs.CostsFlops:
		return false
	}
	return !p.Shared && severalKinds(p.Specs)
}

// severalKinds reports whether devices are of several kinds, all of which compute: their
// speeds are compared by measuring.
func severalKinds(devices []device.Spec) bool {
	several := false
	for _, d := range devices {
		if !d.CopyOut {
			return false
		}
		several = several || d.Kind != devices[0].Kind
	}
	return several
}

// time times the segments of a plan that have no time yet, if the config asks for
// that.
func (p *Planner) time(ctx context.Context, plan *partition.Plan) error {
	if !p.measures() {
		return nil
	}
	return p.Times.Measure(ctx, p.Devices, plan, false, p.Config.Devices.IsOpByOp())
}

// timeChosen readies the times of a plan that was chosen before: those that are known,
// and if the config asks for measured ones, the others.
func (p *Planner) timeChosen(ctx context.Context, plan *partition.Plan) error {
	switch {
	case !p.measures():
		return nil
	case p.Config.Partition.Costs == configs.CostsMeasured:
		return p.time(ctx, plan)
	}
	p.Times.Open()
	return nil
}

// before chooses the plan that the run had before, while its devices are the same and it still
// fits. Otherwise, and where the user lists the stages, there is none.
func (p *Planner) before(ctx context.Context, g *graph.Graph) (Choice, error) {
	asked := p.Config.Partition
	c := asked.Chosen
	if c == nil || len(c.Stages) == 0 || asked.Stages.Blocks != nil || !slices.Equal(c.Devices, describe(p.Devices)) {
		return Choice{}, nil
	}
	o, err := p.Options(ctx)
	if err != nil {
		return Choice{}, err
	}
	refit := false
	o.Stages, o.Count, o.Why = c.Stages, 0, "chosen when the run began"
	if c.Replicas > 0 {
		o.Replicas = c.Replicas
	}
	if c.Schedule != "" {
		o.Schedule, o.Order = c.Schedule, nil
		refit = asked.Plan != configs.PlanAuto
	}
	if o.Pin, err = p.pins(); err != nil {
		return Choice{}, err
	}
	for _, id := range c.On {
		o.On = append(o.On, slices.IndexFunc(p.Devices, func(d device.Device) bool { return string(d.ID()) == id }))
	}
	plan, err := partition.New(g, o)
	if errors.Is(err, partition.ErrMemory) || errors.Is(err, partition.ErrStages) || errors.Is(err, partition.ErrReplicas) {
		return Choice{}, nil // it is found anew
	}
	return Choice{Plan: plan, Refit: refit}, err
}

// Keep is the choice as the config keeps it, and so run folder and checkpoints: a resumed run
// goes on with it, or finds out that it is on other devices. It is nil on one device, which
// leaves no choice. Replicas are kept if they are not the config's, or if other keys of it
// gave way.
func (p *Planner) Keep(c Choice) *configs.ChosenPlan {
	auto, gave := p.Config.Partition.Plan == configs.PlanAuto, c.Refit || len(p.gaveWay(c)) > 0
	if len(p.Devices) == 1 && !gave || len(c.Plan.Stages[0].Blocks) == 0 {
		return nil
	}
	kept := &configs.ChosenPlan{Devices: describe(p.Devices)}
	if auto || c.Refit {
		kept.Schedule = c.Plan.Schedule()
	}
	if auto || gave {
		kept.Replicas = c.Plan.Replicas()
	}
	for _, st := range c.Plan.Stages {
		kept.Stages = append(kept.Stages, st.Blocks)
		kept.On = append(kept.On, string(p.Devices[st.Device].ID()))
	}
	return kept
}

// describe is what a choice depends on in devices: their names, instructions and threads.
func describe(devs []device.Device) []string {
	var list []string
	for _, d := range devs {
		spec := d.Spec()
		list = append(list, fmt.Sprintf("%s %s %d", spec.ID, spec.Numerics, spec.Threads))
	}
	return list
}

// Comparison is a candidate for a run.
type Comparison struct {
	partition.Candidate
	Microbatches int
	OtherWeights bool // it needs other microbatches than the config has, which gives other weights
}

// Compare plans for the numbers of stages and replicas that the devices have room for
// and each schedule, and with half, twice and four times the microbatches if a step
// then has at most mostCompared of them. graphOf makes the graph of a step of so many microbatches.
func (p *Planner) Compare(ctx context.Context, graphOf func(microbatches int) (*graph.Graph, error)) ([]Comparison, error) {
	own := p.Steps.Microbatches
	var all []Comparison
	for i, m := range []int{own, own / 2, own * 2, own * 4} {
		if i > 0 && (m < 1 || m > mostCompared || p.Steps.Batch%m != 0) {
			continue
		}
		g, err := graphOf(m)
		if err != nil {
			return nil, err
		}
		o, err := p.optionsOf(ctx, g, m)
		if err != nil {
			return nil, err
		}
		list, err := p.candidates(ctx, g, o)
		if err != nil {
			return nil, err
		}
		if best, err := partition.Choose(list); err == nil && m == own {
			best.Chosen = true
		}
		for _, c := range list {
			all = append(all, Comparison{c, m, m != own})
		}
	}
	return all, nil
}

// mostCompared is the most microbatches that Compare looks at unasked.
const mostCompared = 32
