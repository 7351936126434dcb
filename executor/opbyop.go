package executor

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/calls"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// callsOn are the calls of a segment's variant on a device. The program that runs it op by op
// owns them.
type callsOn struct {
	calls []calls.Call
	exes  []device.Executable // per call
	temps map[*calls.Memory]*residency.Tensor
}

// release gives the executables back to their device.
func (c *callsOn) release() {
	for _, x := range c.exes {
		x.Release()
	}
}

// callsOf compiles the calls of a launch, once for each variant and device. The
// launches of all microbatches share the tensors of temporaries: they run one after
// the other.
func (p *Program) callsOf(l *partition.Launch) (*callsOn, error) {
	k := compiled{l.Variant, l.Device}
	if c := p.calls[k]; c != nil {
		return c, nil
	}
	c := &callsOn{temps: map[*calls.Memory]*residency.Tensor{}}
	number := len(p.calls)
	p.calls[k] = c // release frees what is compiled before an error
	var err error
	if c.calls, err = calls.Cut(l.Variant.Graph, l.Variant.Alias, p.opt.Stop); err != nil {
		return nil, fmt.Errorf("%s: %w", l.Segment.Name, err)
	}
	for i := range stop.Each(p.stop, c.calls) {
		x := &c.calls[i]
		exe, err := p.rt.compiler.compile(p.rt.Devices[l.Device], p.opt.call(x))
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", x.Graph.Name, p.rt.Devices[l.Device].ID(), err)
		}
		c.exes = append(c.exes, exe)
		for _, m := range x.Out {
			if m.Class == calls.Temporary && c.temps[m] == nil {
				if c.temps[m], err = p.temporary(l.Variant.Graph.Name, number, m); err != nil {
					return nil, err
				}
			}
		}
	}
	if p.beside != nil && len(c.calls) > 0 {
		p.beside.add(wanted{k, p.rt.Devices[l.Device], p.opt.segment(l.Variant)})
	}
	return c, p.stop.Err()
}

// temporary declares the tensor of a temporary. number tells variants and devices
// apart.
func (p *Program) temporary(segment string, number int, m *calls.Memory) (*residency.Tensor, error) {
	k := residency.Key{Net: p.opt.Net, Value: segment + "/" + m.Name, Replica: number}
	for p.tensors[k] != nil { // a value that changed its metadata, and so its memory
		k.Microbatch++
	}
	t, err := p.rt.Residency.Declare(k, m.Meta, device.Activation)
	if err == nil {
		p.tensors[k] = t
	}
	return t, err
}

// opTasks makes a task for each op of a launch; none if it only hands tensors
// through.
func (p *Program) opTasks(l *partition.Launch) ([]*task, error) {
	on, err := p.callsOf(l)
	if err != nil {
		return nil, err
	}
	own := make([]*residency.Tensor, len(l.Needs))
	for i, n := range l.Needs {
		if own[i], err = p.tensor(n.Instance); err != nil {
			return nil, err
		}
	}
	of := func(m *calls.Memory) *residency.Tensor {
		switch m.Class {
		case calls.Input:
			return own[l.In[m.Index]]
		case calls.Output:
			return own[l.Out[m.Index]]
		}
		return on.temps[m]
	}
	tasks := make([]*task, len(on.calls))
	for i := range on.calls {
		t := p.opTask(l, &on.calls[i], of)
		t.exe, t.scratch = on.exes[i], on.exes[i].Memory().Temporary
		tasks[i] = t
	}
	return tasks, p.dropAfterLast(l, tasks)
}

// opTask makes the task of a call, without its executable.
func (p *Program) opTask(l *partition.Launch, c *calls.Call, of func(*calls.Memory) *residency.Tensor) *task {
	t := &task{
		name: l.Name() + "/" + c.Name(), microbatch: l.Microbatch, action: l.Action(), kinds: l.KindsOf(c.Node), call: c,
		dev: l.Device, device: p.rt.Devices[l.Device].ID(),
		in: make([]device.Buffer, len(c.In)), out: make([]device.Buffer, len(c.Out)),
	}
	need := func(m *calls.Memory, write bool) int {
		x, mode := of(m), residency.Read
		if write {
			mode = residency.Write
			t.updates = t.updates || p.lasting[x]
		}
		for i := range t.needs {
			if n := &t.needs[i]; n.Tensor == x {
				if n.Mode != mode {
					n.Mode = residency.ReadWrite
				}
				return i
			}
		}
		t.needs = append(t.needs, residency.Need{Tensor: x, Device: p.rt.on[l.Device].index, Mode: mode})
		return len(t.needs) - 1
	}
	for _, m := range c.In {
		t.inNeed = append(t.inNeed, need(m, false))
	}
	for _, m := range c.Out {
		t.outNeed = append(t.outNeed, need(m, true))
	}
	for _, m := range c.Over {
		t.drops = append(t.drops, of(m))
	}
	return t
}

// results waits for an op, and is its results in words, also where they are not finite; nil if it failed otherwise,
// which others tell.
func (p *Program) results(ctx context.Context, t *task, done device.Event) (list []string) {
	if t.call == nil {
		return nil
	}
	if err := done.Wait(ctx); err != nil && !t.wrote(err) {
		return nil
	}
	if guard := p.skippedBy(ctx, t); guard != nil {
		for _, v := range t.call.Graph.Outputs {
			list = append(list, fmt.Sprintf("%s %v: skipped, since nothing reads it in this step: %s did not choose it", v.Name, v.Meta, guard.Name))
		}
		return list
	}
	for k, n := range t.outNeed {
		x, name := t.needs[n].Tensor, t.call.Graph.Outputs[k].Name
		err := p.rt.Residency.Peek(ctx, x, func(b []byte) error {
			list = append(list, fmt.Sprintf("%s %v: %s", name, x.Meta(), shape.Summary(x.Meta(), b)))
			return nil
		})
		if err != nil {
			list = append(list, fmt.Sprintf("%s %v: not read: %v", name, x.Meta(), err))
		}
	}
	return list
}

// skippedBy is the first guard of an op that is not met, so that the device skipped it; nil if it computed. The results of one
// that was skipped are whatever was in their memory.
func (p *Program) skippedBy(ctx context.Context, t *task) *graph.Value {
	if t.call.Graph.Needed == nil {
		return nil
	}
	for _, guard := range t.call.Graph.Needed[0] {
		met, x := true, t.needs[t.inNeed[slices.Index(t.call.Graph.Inputs, guard.Value)]].Tensor
		err := p.rt.Residency.Peek(ctx, x, func(b []byte) error {
			met = (shape.View[float32](b)[0] == 0) == guard.Else
			return nil
		})
		if err == nil && !met {
			return guard.Value
		}
	}
	return nil
}

// dropAfterLast has each tensor that the launch is the last to use dropped after the
// last op that uses it.
func (p *Program) dropAfterLast(l *partition.Launch, tasks []*task) error {
	if len(tasks) == 0 {
		return nil
	}
	for _, k := range l.Over {
		x, err := p.tensor(l.Needs[k].Instance)
		if err != nil {
			return err
		}
		last := len(tasks) - 1
		for i := last; i >= 0; i-- {
			if slices.ContainsFunc(tasks[i].needs, func(n residency.Need) bool { return n.Tensor == x }) {
				last = i
				break
			}
		}
		tasks[last].drops = append(tasks[last].drops, x)
	}
	return nil
}
