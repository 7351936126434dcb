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

// expand prepares the tasks and feeds of a step.
func (p *Program) expand(size stepSize) error {
	launches, err := p.opt.launches(size)
	if err = cmp.Or(err, roomFor(len(launches), size.microbatches, "launches")); err != nil {
		return err
	}
	ops, err := p.countOps(launches)
	if err = cmp.Or(err, roomFor(ops, size.microbatches, "ops")); err != nil {
		return err
	}
	e := &expansion{net: p.opt.Net, stepSize: size}
	if e.schedule, err = size.full.ScheduleOf(size.microbatches); err != nil {
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

// countOps is the number of tasks of launches that run op by op.
func (p *Program) countOps(launches []partition.Launch) (ops int, err error) {
	for i := range stop.Each(p.stop, launches) {
		if l := &launches[i]; p.runsOps(l) {
			on, err := p.callsOf(l)
			if err != nil {
				return 0, err
			}
			ops += len(on.calls)
		}
	}
	return ops, nil
}

// taskBytes is about the host memory that a task, its tensors and uses take.
const taskBytes = 5 << 10

// available is host.Available, unless a test has another number of free bytes.
var available = host.Available

// roomFor refuses a step of so many tasks, which are launches or ops, that the host has
// no memory for them.
func roomFor(tasks, microbatches int, what string) error {
	need := int64(tasks) * taskBytes
	if need < 64<<20 { // not worth the question
		return nil
	}
	free, err := available()
	if err != nil || need <= free {
		return nil // where it is not known, the system decides
	}
	takes, there := units.TwoBytes(need, free)
	return fmt.Errorf("%w: a step of %d microbatches has %d %s, which take about %s of host memory, and %s is free: use fewer, larger microbatches", ErrLaunches, microbatches, tasks, what, takes, there)
}

// runsOps reports whether a launch runs op by op.
func (p *Program) runsOps(l *partition.Launch) bool {
	return p.opt.OpByOp || p.beside != nil && p.exes[compiled{l.Variant, l.Device}] == nil
}

// tasks are those of a launch: one, or one for each op.
func (p *Program) tasks(l *partition.Launch) ([]*task, error) {
	if p.runsOps(l) {
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

// executable compiles the variant of a launch. A device compiles equal
// signatures once.
func (p *Program) executable(l *partition.Launch) (device.Executable, error) {
	k := compiled{l.Variant, l.Device}
	if x := p.exes[k]; x != nil {
		return x, nil
	}
	on := p.rt.Devices[l.Device]
	x, err := p.rt.compiler.compile(on, p.opt.segment(l.Variant))
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", l.Segment.Name, on.ID(), err)
	}
	p.exes[k] = x
	return x, nil
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
		tail := e.tail != nil && k == e.microbatches-1
		plan := e.full
		if tail {
			plan = e.tail
		}
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
