package executor

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// expand prepares a step of that many microbatches: its schedule, tasks and feeds.
func (p *Program) expand(microbatches int, tail bool) error {
	s, err := p.schedule(microbatches)
	if err != nil {
		return err
	}
	e := &expansion{schedule: s, microbatches: microbatches, tail: tail}
	for _, a := range s.Order() {
		if a.Kind == schedule.Update {
			continue // the Update phase follows, level by level over all stages
		}
		if err := p.addTasks(e, phaseOf(a.Kind), a.Stage, a.Microbatch); err != nil {
			return err
		}
	}
	if err := p.addTasks(e, graph.Update, -1, microbatches-1); err != nil {
		return err
	}
	if err := p.addFeeds(e); err != nil {
		return err
	}
	p.addUses(e)
	p.sizes = append(p.sizes, e)
	return nil
}

func (p *Program) schedule(microbatches int) (schedule.Schedule, error) {
	stages := len(p.opt.Full.Stages)
	if p.opt.Schedule == "" {
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

// addTasks appends a task for each segment of a phase, of one stage or, if stage
// is negative, of all.
func (p *Program) addTasks(e *expansion, phase graph.Phase, stage, microbatch int) error {
	tail := e.tail && microbatch == e.microbatches-1
	plan := p.plan(tail)
	for i := range plan.Segments {
		seg := &plan.Segments[i]
		if seg.Phase != phase || stage >= 0 && seg.Stage != stage {
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

// task makes the task of a segment for a microbatch.
func (p *Program) task(seg *partition.Segment, microbatch int, tail bool) (*task, error) {
	if stop := p.opt.Stop; stop != nil {
		if err := stop(); err != nil {
			return nil, err
		}
	}
	later := microbatch > 0 && seg.Phase != graph.Update
	x, err := p.executable(seg, later, tail)
	if err != nil {
		return nil, err
	}
	v := variant(seg, later)
	t := &task{
		name: taskName(seg, microbatch), updates: seg.Phases.Has(graph.Update), microbatch: microbatch, dev: seg.Device, device: p.rt.Devices[seg.Device].ID(), exe: x,
		in: make([]device.Buffer, len(v.In)), out: make([]device.Buffer, len(v.Out)),
	}
	at := map[*residency.Tensor]int{}
	for _, s := range v.In {
		if err := p.need(t, at, s, microbatch, tail, &t.inNeed); err != nil {
			return nil, err
		}
	}
	for _, s := range v.Out {
		if err := p.need(t, at, s, microbatch, tail, &t.outNeed); err != nil {
			return nil, err
		}
	}
	for _, v := range p.over(seg, tail) {
		x, err := p.tensor(v, microbatch, tail)
		if err != nil {
			return nil, err
		}
		t.drops = append(t.drops, x)
	}
	return t, nil
}

// over lists the values that are no longer needed once a segment has run.
func (p *Program) over(seg *partition.Segment, tail bool) []*graph.Value {
	if !p.opt.Fetch {
		return slices.Concat(seg.Frees, seg.Unread)
	}
	kept := p.plan(tail).Graph.Outputs
	return slices.DeleteFunc(slices.Clone(seg.Frees), func(v *graph.Value) bool { return slices.Contains(kept, v) })
}

func taskName(seg *partition.Segment, microbatch int) string {
	if seg.Phase == graph.Update {
		return seg.Name
	}
	return fmt.Sprintf("%s%d", seg.Name, microbatch)
}

// need adds a slot's tensor to t.needs, and its index there to args. A tensor that
// is both read and written is one need. at has the index of each tensor in
// t.needs.
func (p *Program) need(t *task, at map[*residency.Tensor]int, s partition.Slot, microbatch int, tail bool, args *[]int) error {
	x, err := p.tensor(s.Value, microbatch, tail)
	if err != nil {
		return err
	}
	mode := modeOf(s.Mode)
	i, known := at[x]
	if !known {
		i = len(t.needs)
		at[x] = i
		t.needs = append(t.needs, residency.Need{Tensor: x, Device: t.dev, Mode: mode})
	} else if t.needs[i].Mode != mode {
		t.needs[i].Mode = residency.ReadWrite
	}
	*args = append(*args, i)
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

// addFeeds cuts a batch into microbatches.
func (p *Program) addFeeds(e *expansion) error {
	e.bytes = make([]int64, len(p.inputs))
	for k := range e.microbatches {
		tail := e.tail && k == e.microbatches-1
		in := fedInputs(p.plan(tail).Graph)
		for i, v := range in {
			t, err := p.tensor(v, k, tail)
			if err != nil {
				return err
			}
			e.feeds = append(e.feeds, feed{field: i, from: e.bytes[i], bytes: v.Meta.Bytes(), tensor: t})
			e.bytes[i] += v.Meta.Bytes()
		}
		e.samples += in[0].Meta.Shape[0]
	}
	return nil
}

// addUses lists the tensors that the tasks use, and among them the ones that no
// later step uses.
func (p *Program) addUses(e *expansion) {
	seen := map[*residency.Tensor]bool{}
	for _, t := range e.tasks {
		for _, n := range t.needs {
			e.uses = append(e.uses, residency.Use{Tensor: n.Tensor, Device: n.Device})
			if !seen[n.Tensor] && !p.lasting[n.Tensor] {
				seen[n.Tensor] = true
				e.passing = append(e.passing, n.Tensor)
			}
		}
	}
}
