package device

import (
	"fmt"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// target is the card's processor: plain Go.
var target = work.TargetOf(isa.Generic)

// supports tells whether there is a kernel for a node.
func supports(n *graph.Node) error {
	_, err := kernels.NewCluster(fuse.Single(n), target)
	return err
}

// program is a plan with a kernel for each step. It implements [streams.Program].
type program struct {
	card        *card
	code        []instr
	temps       int64 // bytes of the plan's temporaries, which begin a launch's scratch
	scratch     int64 // bytes of the kernel that needs most, behind them
	checkFinite bool  // a step fails when it writes NaN or Inf
	times       streams.KernelTimes
}

// instr is one step of a plan.
type instr struct {
	step   *planner.Step
	kernel work.Kernel // nil for a copy of an output
	args   work.Args
	work   *device.Work // as times told of it; nil before
}

// bind makes a program of a plan. Compile and Estimate call it: it takes no device memory.
func bind(c *card, p *planner.Plan, checkFinite bool, times streams.KernelTimes) (*program, error) {
	pr := &program{card: c, temps: p.TempBytes, checkFinite: checkFinite, times: times}
	for i := range p.Steps {
		st := &p.Steps[i]
		if st.Empty() {
			continue
		}
		in := instr{step: st}
		in.args.In, in.args.Out = make([][]byte, len(st.In)), make([][]byte, len(st.Out))
		if st.Cluster != nil {
			k, err := kernels.NewCluster(st.Cluster, target)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", st.Cluster.Describe(), err)
			}
			in.kernel, pr.scratch = k, max(pr.scratch, k.ScratchBytes())
		}
		pr.code = append(pr.code, in)
	}
	return pr, nil
}

// ScratchBytes implements [streams.Program].
func (p *program) ScratchBytes() int64 { return p.temps + p.scratch }

// Run implements [streams.Program]. It runs in the order of the streams, one launch of a
// card at a time, and returns once the last kernel has ended.
func (p *program) Run(l *streams.Launch) error {
	timed := p.times.Wanted()
	for i := range p.code {
		in := &p.code[i]
		if err := l.Await(in.step); err != nil { // inputs may still come, and be read by others
			return err
		}
		p.point(in, l)
		start := time.Now()
		if p.skipped(in, l) {
			l.Completed(in.step)
			continue
		}
		if err := p.compute(in); err != nil {
			return err
		}
		if timed && in.kernel != nil {
			p.times.Tell(l, in.step.Cluster, &in.work, start)
		}
		l.Completed(in.step)
	}
	return nil
}

// point sets a kernel's arguments to the memory of a launch's buffers and scratch.
func (p *program) point(in *instr, l *streams.Launch) {
	for i, s := range in.step.In {
		in.args.In[i] = p.card.at(l.Offset(s), s.Size)
	}
	for i, s := range in.step.Out {
		in.args.Out[i] = p.card.at(l.Offset(s), s.Size)
	}
	in.args.Scratch = p.card.at(l.Scratch()+p.temps, p.scratch)
}

// skipped tells whether nothing reads what a step would write: a guard is not met.
func (p *program) skipped(in *instr, l *streams.Launch) bool {
	for _, guard := range in.step.When {
		number := shape.View[float32](p.card.at(l.Offset(guard.Storage), guard.Size))[0]
		if (number == 0) != guard.Else {
			return true
		}
	}
	return false
}

// compute runs one step.
func (p *program) compute(in *instr) error {
	if in.kernel == nil {
		copy(in.args.Out[0], in.args.In[0])
		return nil
	}
	err := in.kernel.Run(serial{}, &in.args)
	if err != nil {
		return fmt.Errorf("%s: %w", in.step.Cluster.Describe(), err)
	}
	if p.checkFinite {
		return nonFinite(in)
	}
	return nil
}

// nonFinite finds the first NaN or Inf among a step's float outputs.
func nonFinite(in *instr) error {
	for o, v := range in.step.Cluster.Out {
		if !device.MustBeFinite(v) {
			continue
		}
		for i, f := range shape.View[float32](in.args.Out[o]) {
			if f-f != 0 { // of NaN and of both infinities it is NaN
				return &device.NonFiniteError{Node: v.Node, Value: v.Name, Index: i}
			}
		}
	}
	return nil
}

// serial runs the chunks of a kernel one after the other. It implements [work.Pool].
type serial struct{}

// Threads is the number of chunks that run at the same time.
func (serial) Threads() int { return 1 }

// Do runs all chunks.
func (serial) Do(chunks int, t work.Task) {
	for i := range chunks {
		t.Chunk(i)
	}
}
