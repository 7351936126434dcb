package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// task is one launch of a step: a segment for a microbatch. Everything that
// does not change from step to step is worked out once.
type task struct {
	name       string // "s0.F2"
	microbatch int
	dev        int
	exe        device.Executable
	needs      []residency.Need
	inNeed     []int // per input of the executable, its place in needs
	outNeed    []int
	in, out    []device.Buffer
	lease      residency.Lease
	drops      []*residency.Tensor
	events     [2]device.Event // of the last two steps that ran it
}

// expansion is a step of a given number of microbatches as tasks in the order
// in which they are queued.
type expansion struct {
	schedule     schedule.Schedule
	microbatches int
	tail         bool // the last microbatch is of the tail's size, and so is the update
	tasks        []*task
	feeds        []feed
}

// feed is one input of one microbatch.
type feed struct {
	field, microbatch int
	value             *graph.Value
	tensor            *residency.Tensor
}

// expand works a step out: schedule, tasks, feeds.
func (p *Program) expand(microbatches int, tail bool) (*expansion, error) {
	s, err := p.schedule(microbatches)
	if err != nil {
		return nil, err
	}
	e := &expansion{schedule: s, microbatches: microbatches, tail: tail}
	for _, a := range s.Order() {
		if a.Kind == schedule.Update {
			continue // the Update phase follows, level by level over all stages
		}
		if err := p.addTasks(e, phaseOf(a.Kind), a.Stage, a.Microbatch); err != nil {
			return nil, err
		}
	}
	if err := p.addTasks(e, graph.Update, -1, microbatches-1); err != nil {
		return nil, err
	}
	return e, p.addFeeds(e)
}

func (p *Program) schedule(microbatches int) (schedule.Schedule, error) {
	stages := len(p.opt.Full.Stages)
	if p.opt.Schedule == "" || p.opt.CheckFinite {
		return schedule.ForwardOnly(stages, microbatches), nil
	}
	return schedule.New(p.opt.Schedule, stages, microbatches)
}

func phaseOf(k schedule.Kind) graph.Phase {
	if k == schedule.Backward {
		return graph.Backward
	}
	return graph.Forward
}

// addTasks appends the segments of a phase, of one stage or (stage < 0) all.
func (p *Program) addTasks(e *expansion, phase graph.Phase, stage, microbatch int) error {
	tail := e.tail && microbatch == e.microbatches-1
	plan := p.plan(tail)
	for i := range plan.Segments {
		seg := &plan.Segments[i]
		if seg.Phase != phase || stage >= 0 && seg.Stage != stage || p.skips(seg) {
			continue
		}
		t, err := p.task(seg, microbatch, tail)
		if err != nil {
			return err
		}
		e.tasks = append(e.tasks, t)
	}
	return nil
}

func (p *Program) task(seg *partition.Segment, microbatch int, tail bool) (*task, error) {
	later := microbatch > 0 && seg.Phase != graph.Update
	v := variant(seg, later)
	t := &task{
		name: taskName(seg, microbatch), microbatch: microbatch, dev: seg.Device, exe: p.exes[exeKey{tail, seg.ID, later}],
		in: make([]device.Buffer, len(v.In)), out: make([]device.Buffer, len(v.Out)),
	}
	for _, s := range v.In {
		if err := p.need(t, s, microbatch, tail, &t.inNeed); err != nil {
			return nil, err
		}
	}
	for _, s := range v.Out {
		if err := p.need(t, s, microbatch, tail, &t.outNeed); err != nil {
			return nil, err
		}
	}
	for _, v := range slices.Concat(seg.Frees, p.unread(seg)) {
		x, err := p.tensor(v, microbatch, tail)
		if err != nil {
			return nil, err
		}
		t.drops = append(t.drops, x)
	}
	return t, nil
}

// unread lists the outputs of a segment that nobody will ask for.
func (p *Program) unread(seg *partition.Segment) []*graph.Value {
	if p.opt.Fetch {
		return nil
	}
	return seg.Unread
}

func taskName(seg *partition.Segment, microbatch int) string {
	if seg.Phase == graph.Update {
		return seg.Name
	}
	return fmt.Sprintf("%s%d", seg.Name, microbatch)
}

// need adds a slot's tensor to what the task leases, joining the modes of a
// tensor that is both read and written.
func (p *Program) need(t *task, s partition.Slot, microbatch int, tail bool, at *[]int) error {
	x, err := p.tensor(s.Value, microbatch, tail)
	if err != nil {
		return err
	}
	mode := modeOf(s.Mode)
	i := slices.IndexFunc(t.needs, func(n residency.Need) bool { return n.Tensor == x })
	if i < 0 {
		i = len(t.needs)
		t.needs = append(t.needs, residency.Need{Tensor: x, Device: t.dev, Mode: mode})
	} else if t.needs[i].Mode != mode {
		t.needs[i].Mode = residency.ReadWrite
	}
	*at = append(*at, i)
	return nil
}

func modeOf(m partition.Mode) residency.Mode {
	switch m {
	case partition.Write:
		return residency.Write
	case partition.ReadWrite:
		return residency.ReadWrite
	}
	return residency.Read
}

func (p *Program) addFeeds(e *expansion) error {
	for k := range e.microbatches {
		tail := e.tail && k == e.microbatches-1
		for i, v := range fedInputs(p.plan(tail).Graph) {
			t, err := p.tensor(v, k, tail)
			if err != nil {
				return err
			}
			e.feeds = append(e.feeds, feed{field: i, microbatch: k, value: v, tensor: t})
		}
	}
	return nil
}

// queue acquires, launches and releases one task. It does not wait for the
// device.
func (p *Program) queue(ctx context.Context, t *task, slot int) error {
	s, m := p.rt.compute[t.dev], p.rt.Residency
	if err := m.Acquire(ctx, s, t.needs, &t.lease); err != nil {
		return p.in(t, err)
	}
	for i, n := range t.inNeed {
		t.in[i] = t.lease.Buffers[n]
	}
	for i, n := range t.outNeed {
		t.out[i] = t.lease.Buffers[n]
	}
	done, err := s.Launch(t.exe, t.in, t.out)
	if err != nil {
		return p.in(t, errors.Join(err, m.Abandon(&t.lease)))
	}
	t.events[slot] = done
	if err := m.Release(&t.lease, done); err != nil {
		return p.in(t, err)
	}
	for _, x := range t.drops {
		if err := m.Drop(x); err != nil {
			return p.in(t, err)
		}
	}
	return nil
}

// in names the task that an error happened in.
func (p *Program) in(t *task, err error) error {
	return fmt.Errorf("%s on %s: %w", t.name, p.rt.Devices[t.dev].ID(), err)
}
