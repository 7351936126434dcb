package cl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/graph"
)

// instr is one step of a program: a cluster's kernels, or a copy.
type instr struct {
	step    *planner.Step
	calls   []gen.Call
	first   int // the number of its first call in the program
	kernels []*kernel
	work    *device.Work // of the cluster; nil before anyone asks for its time
}

// program is a plan as kernels. It implements [streams.Program].
type program struct {
	plan    *planner.Plan
	library *library
	memory  *memory
	code    []instr
	scratch int64
	args    []uint64 // of the call that is queued; on the heap
	size    []uintptr
	word    []int32 // the status word; on the heap
	times   streams.KernelTimes
}

// bind makes a program of a plan.
func bind(l *library, m *memory, p *planner.Plan, o device.CompileOptions) (*program, error) {
	if err := check(p.Graph.Nodes...); err != nil {
		return nil, err
	}
	pr := &program{plan: p, library: l, memory: m, args: make([]uint64, 1), size: make([]uintptr, 6), word: make([]int32, 1)}
	var scratch int64
	calls := 0
	for i := range p.Steps {
		st := &p.Steps[i]
		if st.Empty() {
			continue
		}
		in := instr{step: st, first: calls}
		bytes, err := in.write(o.CheckFinite)
		if err != nil {
			return nil, err
		}
		calls, scratch = calls+len(in.calls), max(scratch, bytes)
		pr.code = append(pr.code, in)
	}
	pr.scratch = p.TempBytes + scratch
	return pr, nil
}

// calls are the calls of all instructions.
func (p *program) calls() (all []gen.Call) {
	for i := range p.code {
		all = append(all, p.code[i].calls...)
	}
	return all
}

// Find implements [streams.Loader].
func (p *program) Find(loaded map[string]bool) device.Source {
	return p.library.find(p.calls(), loaded)
}

// Load implements [streams.Loader]: it compiles the kernels that the device has not met
// yet.
func (p *program) Load(stop func() error) (device.Source, error) {
	from, err := p.library.add(p.calls(), stop)
	if err == nil {
		err = p.ready(stop)
	}
	return from, err
}

// ready gives each instruction its kernels.
func (p *program) ready(stop func() error) error {
	for i := range p.code {
		in := &p.code[i]
		if err := p.library.fill(in.calls); err != nil {
			return fmt.Errorf("%s: %w", in.doing(), err)
		}
		in.kernels = in.kernels[:0]
		for _, c := range in.calls {
			in.kernels = append(in.kernels, p.library.kernel(c.Name))
		}
	}
	if p.library.context.of.platform == pocl {
		return p.runIdle(stop)
	}
	return nil
}

// runIdle runs each kernel that has not run yet, for a driver that compiles it then:
// the wait is Compile's, which tells of it and can be stopped, and not the first
// launch's. Kernels write nothing, since their status word is set. They may read, from the
// start of the memory on: those of an instruction that does not fit there are left out.
func (p *program) runIdle(stop func() error) error {
	to, err := p.memory.lane()
	if err != nil {
		return err
	}
	defer p.memory.giveBack(to)
	for i := range p.code {
		in := &p.code[i]
		for c, k := range in.kernels {
			if k.ran || !p.fits(in) {
				continue
			}
			if stop != nil {
				if err := stop(); err != nil {
					return err
				}
			}
			err := p.enqueue(to, &in.calls[c], k, p.library.failed, func(a gen.Arg) int64 {
				if a.Role == gen.Site {
					return 1 // a kernel that fails leaves the status word set
				}
				return a.Value
			})
			if err = cmp.Or(err, to.call(finish, to.queue)); err != nil {
				return fmt.Errorf("%s: %w", in.doing(), err)
			}
			k.ran = true
		}
	}
	return nil
}

// fits tells whether the memory is as large as each value of an instruction and the scratch.
func (p *program) fits(in *instr) bool {
	most := p.scratch
	for _, s := range slices.Concat(in.step.In, in.step.Out) {
		most = max(most, s.Size)
	}
	for _, guard := range in.step.When {
		most = max(most, guard.Size)
	}
	return most <= p.memory.bytes
}

// write writes the kernels of an instruction. scratch is the bytes that they need.
func (in *instr) write(checkFinite bool) (scratch int64, err error) {
	c := in.step.Cluster
	if c == nil {
		in.calls = gen.CopyOf(in.step.Out[0].Size)
		return 0, nil
	}
	if in.calls, scratch, err = gen.Cluster(c); err != nil {
		return 0, fmt.Errorf("%s: %w", in.doing(), unsupported(err))
	}
	for o, v := range c.Out {
		if checkFinite && device.MustBeFinite(v) {
			in.calls = append(in.calls, gen.Finite(v, o)...)
		}
	}
	return scratch, nil
}

// doing names an instruction for an error.
func (in *instr) doing() string {
	if in.step.Cluster == nil {
		return "copy of an output"
	}
	return in.step.Cluster.Describe()
}

// unsupported makes gen's error one of devices.
func unsupported(err error) error {
	if errors.Is(err, gen.ErrUnsupported) {
		return fmt.Errorf("%w: %w", device.ErrUnsupported, err)
	}
	return err
}

// supports tells whether gen covers a node.
func supports(n *graph.Node) error {
	if err := check(n); err != nil {
		return err
	}
	_, _, err := gen.Node(n)
	return unsupported(err)
}

// ScratchBytes implements [streams.Program].
func (p *program) ScratchBytes() int64 { return p.scratch }

// Run implements [streams.Program]: it queues all kernels and waits once, or after each
// step where its time is asked for. What was queued has ended when it returns, also after
// an error.
func (p *program) Run(l *streams.Launch) error {
	to, err := p.memory.lane()
	if err != nil {
		return err
	}
	defer p.memory.giveBack(to)
	err = p.steps(to, l)
	ended := to.call(finish, to.queue)
	return cmp.Or(err, ended, p.failure(to, l)) // which clears the status word
}

// steps queues all steps.
func (p *program) steps(to *lane, l *streams.Launch) error {
	timed := p.times.Wanted()
	for i := range p.code {
		if l.Late(p.code[i].step) { // what was queued runs meanwhile
			if err := to.call(finish, to.queue); err != nil {
				return err
			}
		}
		if err := l.Await(p.code[i].step); err != nil {
			return err
		}
		start := time.Now()
		if err := p.step(to, l, i); err != nil {
			return err
		}
		if c := p.code[i].step.Cluster; timed && c != nil {
			if err := to.call(finish, to.queue); err != nil {
				return fmt.Errorf("%s: %w", c.Describe(), err)
			}
			p.times.Tell(l, c, &p.code[i].work, start)
		}
	}
	return nil
}

// step queues a step.
func (p *program) step(to *lane, l *streams.Launch, i int) error {
	in := &p.code[i]
	for c := range in.calls {
		if err := p.queue(to, l, i, c); err != nil {
			return fmt.Errorf("%s: %w", in.doing(), err)
		}
	}
	return nil
}

// queue queues kernel c of a step.
func (p *program) queue(to *lane, l *streams.Launch, step, c int) error {
	in := &p.code[step]
	call, k := &in.calls[c], in.kernels[c]
	if call.Copy && p.value(l, in, call.Args[0]) == p.value(l, in, call.Args[1]) {
		return nil
	}
	return p.enqueue(to, call, k, p.library.status, func(a gen.Arg) int64 {
		if a.Role == gen.Site {
			return int64(in.first + c + 1)
		}
		return p.value(l, in, a)
	})
}

// enqueue queues a kernel with a status word, and with arguments that value gives.
func (p *program) enqueue(to *lane, call *gen.Call, k *kernel, status uintptr, value func(gen.Arg) int64) error {
	set := func(i int, v uint64) error { return k.set(to.caller, i, v, p.args) }
	if err := errors.Join(set(0, uint64(p.memory.object)), set(1, uint64(status))); err != nil {
		return err
	}
	for i, a := range call.Args {
		if err := set(i+2, uint64(value(a))); err != nil {
			return err
		}
	}
	lanes, group := call.Lanes(p.library.lanes)
	p.size[0], p.size[1] = uintptr(lanes), uintptr(group)
	return to.call(enqueueNDRangeKernel, to.queue, k.handle, 1, 0, at(to.caller, &p.size[0]), at(to.caller, &p.size[1]), 0, 0, 0)
}

// value is the value of an argument in a launch.
func (p *program) value(l *streams.Launch, in *instr, a gen.Arg) int64 {
	switch a.Role {
	case gen.In:
		return a.Value + l.Offset(in.step.In[a.Index])
	case gen.Out:
		return a.Value + l.Offset(in.step.Out[a.Index])
	case gen.When:
		return a.Value + l.Offset(in.step.When[a.Index].Storage)
	case gen.Scratch:
		return a.Value + p.plan.TempBytes + l.Scratch()
	}
	return a.Value
}
