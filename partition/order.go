package partition

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/executor/schedule"
)

// roundsPerDevice is the number of stages on each device that an interleaved
// schedule gets by default: more make the bubble smaller and the copies more.
const roundsPerDevice = 2

// defaultSchedule is the meaning of "" in PlanOptions.Schedule.
const defaultSchedule = "1f1b"

// interleaved is the name of the schedule for which stages are dealt in rounds.
const interleaved = "interleaved"

// CheckSchedule is New's error about a schedule that no step can have.
func (o *PlanOptions) CheckSchedule() error {
	if o.Order == nil {
		return o.spec(make([]int, 1)).Check()
	}
	s := o.Order
	switch {
	case s.Replicas != max(1, o.Replicas):
		return fmt.Errorf("%w: it is for %d replicas, and partition.replicas is %d; make them equal", schedule.ErrInvalid, s.Replicas, max(1, o.Replicas))
	case s.Has(schedule.Reduce):
		return fmt.Errorf("%w: it has reductions; leave out R, sums are made where they can be", schedule.ErrInvalid)
	case !s.Has(schedule.Backward):
		return fmt.Errorf("%w: it has no backward passes; add B for each microbatch", schedule.ErrInvalid)
	case s.Microbatches != o.Microbatches:
		return fmt.Errorf("%w: it is for %d microbatches, and train.microbatches is %d; make them equal", schedule.ErrInvalid, s.Microbatches, o.Microbatches)
	case o.Stages != nil && len(o.Stages) != s.Stages, o.Count != 0 && o.Count != s.Stages:
		return fmt.Errorf("%w: it is for %d stages, and partition.stages asks for %d; make them equal", schedule.ErrInvalid, s.Stages, max(o.Count, len(o.Stages)))
	}
	if err := s.Validate(); err != nil {
		return err
	}
	if o.Shard == ShardOptimizer && s.Replicas > 1 && s.UpdatesFirst() {
		return fmt.Errorf("%w: a replica has no U, and partition.shard is optimizer; add a U for each of its stages, such as 0U@1", schedule.ErrInvalid)
	}
	for i, w := range s.Workers {
		each := len(s.Rows) / s.Replicas // workers of a replica
		if len(s.Rows)%s.Replicas != 0 || w != i/s.Stages*each+s.Workers[i%s.Stages] {
			return fmt.Errorf("%w: its replicas are not on workers of their own, each on as many and dealt alike; put worker after worker of the first, then the same of the next", schedule.ErrInvalid)
		}
	}
	return nil
}

// settle makes an order of the caller's fit the devices. The options are checked.
func (o *PlanOptions) settle() {
	if o.Order == nil {
		return
	}
	s := o.Order.On(o.perReplica() * o.Order.Replicas)
	o.Order = &s
	if o.Stages == nil {
		o.Count = s.Stages
	}
}

// deal gives each of n stages a device. Neighbours share one where there are fewer
// devices than stages, unless the schedule wants them apart.
func (o *PlanOptions) deal(n int) []int {
	switch {
	case o.On != nil:
		return o.On
	case o.Order != nil && o.Order.Stages == n:
		return o.Order.Workers[:n]
	}
	devices := make([]int, n)
	for s := range devices {
		if devices[s] = s * min(n, len(o.Devices)) / n; o.Schedule == interleaved {
			devices[s] = s % len(o.Devices)
		}
	}
	return devices
}

// stagesByDefault is the number of stages for all devices, of so many at most: as
// many as devices, or where the schedule goes round them, a multiple.
func (o *PlanOptions) stagesByDefault(most int) int {
	n := len(o.Devices)
	if o.Schedule == interleaved && n > 1 && most >= roundsPerDevice*n {
		return roundsPerDevice * n
	}
	return n
}

// splits reports whether the schedule has W passes.
func (o *PlanOptions) splits() bool {
	if o.Order != nil {
		return o.Order.Has(schedule.Weights)
	}
	return schedule.Splits(o.Schedule)
}

// spec describes the named schedule of stages on these devices of the first replica.
func (o *PlanOptions) spec(devices []int) schedule.Spec {
	return schedule.Spec{Name: cmp.Or(o.Schedule, defaultSchedule), Stages: len(devices), Microbatches: o.Microbatches, Replicas: o.Replicas, Workers: o.workers(devices, max(1, o.Replicas))}
}

// workers are the devices of the stages of so many replicas, given those of the first.
func (o *PlanOptions) workers(devices []int, replicas int) (all []int) {
	for r := range replicas {
		for _, d := range devices {
			all = append(all, r*o.perReplica()+d)
		}
	}
	return all
}

// inFlight is, by stage, the most microbatches at once whose activations the
// backward pass still needs.
func (o *PlanOptions) inFlight(devices []int) []int {
	count := o.spec(devices).InFlight
	if o.Order != nil {
		count = func(last schedule.Kind) (n []int) {
			for stage := range devices {
				n = append(n, o.Order.InFlight(stage, last))
			}
			return n
		}
	}
	n := count(schedule.Backward)
	for stage, w := range count(schedule.Weights) {
		n[stage] = max(n[stage], w)
	}
	return n
}

// scheduleOn is the schedule of a step of that many microbatches, of stages on these
// devices of the first replica. Pins and lists of stages may put workers of the
// caller's order on one device, or a worker's stages on several.
func (o *PlanOptions) scheduleOn(devices []int, microbatches int) (schedule.Schedule, error) {
	if o.Order == nil {
		spec := o.spec(devices)
		spec.Microbatches = microbatches
		return schedule.New(spec)
	}
	s := o.Order.Without(microbatches)
	return s.Deal(o.workers(devices, s.Replicas), o.perReplica()*s.Replicas), nil
}

// ScheduleOf is the order in which a step of that many microbatches runs. A plan
// without a backward pass needs none: it runs forward.
func (p *Plan) ScheduleOf(microbatches int) (schedule.Schedule, error) {
	o := p.options
	if !p.goesBack() {
		o.Schedule, o.Order = "forward", nil
	}
	s, err := o.scheduleOn(p.cut.device, microbatches)
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
