package berth

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/partition"
)

// choosePlan cuts the graph of a step: as the run was cut before, as the config asks,
// or for the shortest predicted step.
func (r *Run) choosePlan(ctx context.Context, g *graph.Graph) (*partition.Plan, error) {
	s := r.setup
	if p, err := r.chosenPlan(ctx, g); p != nil || err != nil {
		return p, cmp.Or(err, r.timeChosen(ctx, p))
	}
	o, err := r.planOptions(ctx, g, s.sizes.microbatches)
	if err != nil {
		return nil, err
	}
	if s.config.Partition.Plan == configs.PlanAuto {
		return r.chosenFreely(ctx, g, o)
	}
	p, err := r.givenPlan(ctx, g, o)
	if err != nil {
		return nil, err
	}
	return p, r.time(ctx, p)
}

// givenPlan is the plan that the config asks for. Where its keys give way and it does
// not fit, it is the fastest plan that does.
func (r *Run) givenPlan(ctx context.Context, g *graph.Graph, o partition.PlanOptions) (*partition.Plan, error) {
	s := r.setup
	p, err := partition.New(g, o)
	s.refit = false
	if !errors.Is(err, partition.ErrMemory) || !s.givesWay("partition.replicas") || !s.givesWay("partition.stages") || !s.givesWay("partition.schedule") {
		return p, err
	}
	list, failed := r.candidates(ctx, g, o)
	if failed != nil {
		return nil, failed
	}
	best, none := partition.Choose(list)
	if none != nil {
		return nil, err
	}
	s.refit = true
	return best.Plan, nil
}

// chosenFreely is the plan that partition: auto chooses. Within limits that are
// percentages of a plan, it is that plan unless it does not fit.
func (r *Run) chosenFreely(ctx context.Context, g *graph.Graph, o partition.PlanOptions) (*partition.Plan, error) {
	s := r.setup
	if k := s.picked; k != nil && !s.unlimited && !s.lost {
		within := o
		within.Count, within.Replicas, within.Schedule = k.stages, k.replicas, k.schedule
		p, err := partition.New(g, within)
		if err == nil || !errors.Is(err, partition.ErrMemory) {
			return p, err
		}
	}
	list, err := r.candidates(ctx, g, o)
	if err != nil {
		return nil, err
	}
	best, err := partition.Choose(list)
	if err != nil {
		return nil, err
	}
	if s.unlimited {
		s.picked = &picked{best.Stages, best.Replicas, best.Schedule}
	}
	return best.Plan, nil
}

// planOptions are the options of plans of a graph, for a step of so many microbatches,
// with the times of its blocks if the config asks for measured ones.
func (r *Run) planOptions(ctx context.Context, g *graph.Graph, microbatches int) (partition.PlanOptions, error) {
	s := r.setup
	o, err := s.options(ctx)
	if err != nil {
		return o, err
	}
	o.Microbatches, o.LastMicrobatches = microbatches, s.sizes.lastOf(microbatches)
	if o.Pin, err = s.pins(); err != nil || !r.measures() {
		return o, err
	}
	atoms, err := partition.Atoms(g, o)
	if err != nil {
		return o, err
	}
	var tasks []timing.Task
	for d := range s.devs {
		list, err := tasksOf(atoms)
		if err != nil {
			return o, err
		}
		for i := range list {
			list[i].Device = d
		}
		tasks = append(tasks, list...)
	}
	// The cut, and so the bits of devices of several kinds, is the same op by op.
	if err := s.costs.add(ctx, s.devs, tasks, false); err != nil {
		return o, err
	}
	o.BlockSeconds, err = atoms.BlockSeconds(func(d int, g *graph.Graph) (float64, bool) { return s.costs.seconds(o.Devices, d, g, false) })
	return o, err
}

// candidates plans for each number of stages and replicas and each schedule.
func (r *Run) candidates(ctx context.Context, g *graph.Graph, o partition.PlanOptions) ([]partition.Candidate, error) {
	list, err := partition.Candidates(g, o)
	if err != nil || !r.measures() {
		return list, err
	}
	for i := range list {
		if p := list[i].Plan; p != nil {
			if err := r.time(ctx, p); err != nil {
				return nil, err
			}
		}
	}
	return list, partition.PredictAll(list, stopOf(ctx))
}

// measures reports whether segments are to be timed. On shared devices other runs
// work, so nothing is timed there.
func (r *Run) measures() bool {
	s := r.setup
	switch s.config.Partition.Costs {
	case configs.CostsMeasured:
		return s.shared == nil
	case configs.CostsFlops:
		return false
	}
	return s.shared == nil && severalKinds(s.specs())
}

// time times the segments of a plan that have no time yet, if the config asks for
// that.
func (r *Run) time(ctx context.Context, p *partition.Plan) error {
	if !r.measures() {
		return nil
	}
	tasks, err := tasksOf(p)
	if err != nil {
		return err
	}
	return r.setup.costs.add(ctx, r.setup.devs, tasks, r.setup.opByOp())
}

// timeChosen readies the times of a plan that was chosen before: those that are known,
// and if the config asks for measured ones, the others.
func (r *Run) timeChosen(ctx context.Context, p *partition.Plan) error {
	switch {
	case !r.measures():
		return nil
	case r.setup.config.Partition.Costs == configs.CostsMeasured:
		return r.time(ctx, p)
	}
	r.setup.costs.open()
	return nil
}

// tasksOf are the segments of a step.
func tasksOf(p *partition.Plan) ([]timing.Task, error) {
	launches, err := p.Launches(partition.StepOptions{Microbatches: p.Microbatches})
	if err != nil {
		return nil, err
	}
	return timing.Tasks(p, launches), nil
}

// chosenPlan is the plan that the run chose before, while its devices are the same
// and it still fits; nil: there is none, or the user lists its stages.
func (r *Run) chosenPlan(ctx context.Context, g *graph.Graph) (*partition.Plan, error) {
	s := r.setup
	c := s.config.Partition.Chosen
	if c == nil || len(c.Stages) == 0 || s.config.Partition.Stages.Blocks != nil || !slices.Equal(c.Devices, describe(s.devs)) {
		return nil, nil
	}
	o, err := s.options(ctx)
	if err != nil {
		return nil, err
	}
	o.Stages, o.Count, o.Why = c.Stages, 0, "chosen when the run began"
	if c.Replicas > 0 {
		o.Replicas = c.Replicas
	}
	if c.Schedule != "" {
		o.Schedule, o.Order = c.Schedule, nil
		s.refit = s.config.Partition.Plan != configs.PlanAuto
	}
	for _, id := range c.On {
		o.On = append(o.On, slices.IndexFunc(s.devs, func(d device.Device) bool { return string(d.ID()) == id }))
	}
	p, err := partition.New(g, o)
	if errors.Is(err, partition.ErrMemory) || errors.Is(err, partition.ErrStages) || errors.Is(err, partition.ErrReplicas) {
		return nil, nil // it is found anew
	}
	return p, err
}

// keepPlan writes the plan into the config, and so into run folder and checkpoints: a
// resumed run goes on with it, or finds out that it is on other devices. One device
// leaves no choice. Replicas are written if they are not the config's, or if other keys
// of it gave way.
func (r *Run) keepPlan() {
	s := r.setup
	c := *s.config
	c.Partition.Chosen = nil
	auto, gave := c.Partition.Plan == configs.PlanAuto, s.refit || len(s.gaveWay()) > 0
	if (len(s.devs) > 1 || gave) && len(r.Plan.Stages[0].Blocks) > 0 {
		chosen := &configs.ChosenPlan{Devices: describe(s.devs)}
		if auto || s.refit {
			chosen.Schedule = r.Plan.Schedule()
		}
		if auto || gave {
			chosen.Replicas = r.Plan.Replicas()
		}
		for _, st := range r.Plan.Stages {
			chosen.Stages = append(chosen.Stages, st.Blocks)
			chosen.On = append(chosen.On, string(s.devs[st.Device].ID()))
		}
		c.Partition.Chosen = chosen
	}
	s.config = &c
}

// Comparison is a candidate for a run.
type Comparison struct {
	partition.Candidate
	Microbatches int
	OtherWeights bool // it needs other microbatches than the config has, which gives other weights
}

// Compare plans for the numbers of stages and replicas that the devices have room for
// and each schedule, and with half, twice and four times the microbatches if a step
// then has at most mostCompared of them.
func (r *Run) Compare(ctx context.Context) ([]Comparison, error) {
	z := r.setup.sizes
	var all []Comparison
	for i, m := range []int{z.microbatches, z.microbatches / 2, z.microbatches * 2, z.microbatches * 4} {
		if i > 0 && (m < 1 || m > mostCompared || z.batch%m != 0) {
			continue
		}
		g, err := r.graph(ctx, m)
		if err != nil {
			return nil, err
		}
		o, err := r.planOptions(ctx, g, m)
		if err != nil {
			return nil, err
		}
		list, err := r.candidates(ctx, g, o)
		if err != nil {
			return nil, err
		}
		if best, err := partition.Choose(list); err == nil && m == z.microbatches {
			best.Chosen = true
		}
		for _, c := range list {
			all = append(all, Comparison{c, m, m != z.microbatches})
		}
	}
	return all, nil
}

// mostCompared is the most microbatches that Compare looks at unasked.
const mostCompared = 32
