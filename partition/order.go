package partition

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/segment"
)

// CheckSchedule is New's error about a schedule that no step can have.
func (o *PlanOptions) CheckSchedule() error {
	if o.Order == nil {
		return o.pipeline().Spec(make([]int, 1)).Check()
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
		return s, fmt.Errorf("%w: the schedule %q has no backward pass; use another one for training", cut.ErrStages, s.Name)
	}
	return s, err
}

// goesBack reports whether the plan has a backward pass.
func (p *Plan) goesBack() bool {
	return slices.ContainsFunc(p.Segments, func(s segment.Segment) bool { return s.Passes.Has(schedule.Backward) || s.Passes.Has(schedule.Weights) })
}
