package executor

import (
	"cmp"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// expand prepares a step of that many microbatches: its tasks and feeds. tail is
// the plan of its last microbatch and its update, nil if they are full ones.
func (p *Program) expand(microbatches int, tail *partition.Plan) error {
	launches, err := p.opt.Full.Launches(partition.StepOptions{Microbatches: microbatches, Tail: tail, Fetch: p.opt.Fetch})
	if err = cmp.Or(err, roomFor(len(launches), microbatches)); err != nil {
		return err
	}
	e := &expansion{net: p.opt.Net, microbatches: microbatches, tail: tail != nil}
	if e.schedule, err = p.opt.Full.ScheduleOf(microbatches); err != nil {
		return err
	}
	for i := range launches {
		tasks, err := p.tasks(&launches[i])
		if err != nil {
			return err
		}
		e.tasks = append(e.tasks, tasks...)
	}
	if err := p.addFeeds(e); err != nil {
		return err
	}
	p.addUses(e)
	p.sizes = append(p.sizes, e)
	return p.stop.Err()
}

// launchBytes is about the host memory that a launch's task, tensors and uses take.
const launchBytes = 5 << 10

// roomFor refuses so many launches that the host has no memory for them.
func roomFor(launches, microbatches int) error {
	need := int64(launches) * launchBytes
	if need < 64<<20 { // not worth the question
		return nil
	}
	free, err := host.Available()
	if err != nil || need <= free {
		return nil // where it is not known, the system decides
	}
	takes, there := units.TwoBytes(need, free)
	return fmt.Errorf("%w: a step of %d microbatches has %d launches, which take about %s of host memory, and %s is free: use fewer, larger microbatches", ErrLaunches, microbatches, launches, takes, there)
}

// tasks are those of a launch: one, or one for each op.
func (p *Program) tasks(l *partition.Launch) ([]*task, error) {
	if p.opt.OpByOp {
		if list, err := p.opTasks(l); err != nil || len(list) > 0 {
			return list, err
		}
	}
	t, err := p.task(l)
	return []*task{t}, err
}

// task compiles a launch and declares its tensors.
func (p *Program) task(l *partition.Launch) (*task, error) {
	if err := p.stop.Err(); err != nil {
		return nil, err
	}
	x, err := p.executable(l)
	if err != nil {
		return nil, err
	}
	t := &task{
		name: l.Name(), microbatch: l.Microbatch, action: l.Action(), kind: l.Kind(),
		dev: l.Device, device: p.rt.Devices[l.Device].ID(), exe: x, scratch: x.Memory().Temporary,
		inNeed: l.In, outNeed: l.Out, in: make([]device.Buffer, len(l.In)), out: make([]device.Buffer, len(l.Out)),
		needs: make([]residency.Need, 0, len(l.Needs)),
	}
	for _, n := range stop.Each(p.stop, l.Needs) {
		x, err := p.tensor(n.Instance)
		if err != nil {
			return nil, err
		}
		t.updates = t.updates || n.Mode != partition.Read && p.lasting[x]
		t.needs = append(t.needs, residency.Need{Tensor: x, Device: p.rt.on[t.dev].index, Mode: modeOf(n.Mode)})
	}
	for _, o := range stop.Each(p.stop, l.Over) {
		x, err := p.tensor(o)
		if err != nil {
			return nil, err
		}
		t.drops = append(t.drops, x)
	}
	return t, nil
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
		if p.stop.Done() {
			return p.stop.Err()
		}
		tail := e.tail && k == e.microbatches-1
		plan := p.plan(tail)
		in := fedInputs(plan.Graph)
		for i, v := range in {
			t, err := p.tensor(plan.Instance(v, k, tail))
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

// addUses tells residency the tensors that the tasks use, and lists the ones that
// no later step uses.
func (p *Program) addUses(e *expansion) {
	seen := map[*residency.Tensor]bool{}
	var launches []residency.Launch
	for _, t := range e.tasks {
		launches = append(launches, residency.Launch{Needs: t.needs, Scratch: t.scratch, Frees: t.drops})
		for _, n := range stop.Each(p.stop, t.needs) {
			if !seen[n.Tensor] && !p.lasting[n.Tensor] {
				seen[n.Tensor] = true
				e.passing = append(e.passing, n.Tensor)
			}
		}
	}
	e.uses = p.rt.Residency.NewUses(launches)
}
