package host

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// run executes the program. It needs the device's turn.
func (l *launch) run() (err error) {
	defer l.turn.launches.Add(1)
	defer l.awaitDelays()
	p := l.program
	if p == nil {
		return nil
	}
	p.point(l.in, l.out, l.temps)
	l.timed = p.onKernel != nil && (p.wantKernels == nil || p.wantKernels())
	defer l.wrote()
	at := 0
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %s: BUG: kernel panicked: %v\n%s", l.heap.id, l.doing(at), r, debug.Stack())
		}
	}()
	for at = range p.code {
		in := &p.code[at]
		if l.delayed {
			l.await(in)
		}
		if in.kernel == nil {
			copy(in.out[0], in.in[0])
			continue
		}
		if err := l.runKernel(in); err != nil {
			return fmt.Errorf("%s: %s: %w", l.heap.id, l.doing(at), err)
		}
		if p.checkFinite {
			if err := nonFinite(in); err != nil {
				return fmt.Errorf("%s: %w", l.heap.id, err)
			}
		}
	}
	return nil
}

// wrote gives the contents of the outputs new numbers.
func (l *launch) wrote() {
	for k, b := range l.out {
		if b == nil {
			b = l.in[l.alias[k]]
		}
		b.wrote()
	}
}

// await waits for the delays of the inputs that an instruction overwrites. A
// failure of the event does not matter here: the readers of the buffer learn of
// it.
func (l *launch) await(in *instr) {
	for _, j := range in.overwrites {
		l.awaitDelay(l.delays[j])
	}
}

// awaitDelays waits for all delays that are left: of inputs that no instruction
// overwrites, or that a failed launch did not come to. Who waits for the launch
// need not wait for them.
func (l *launch) awaitDelays() {
	if l.delayed {
		for _, e := range l.delays {
			l.awaitDelay(e)
		}
	}
}

// worker notes the command that runs. Queues of this package are workers.
type worker interface {
	begin(what string, now time.Time) (before string)
}

func (l *launch) awaitDelay(e device.Event) {
	if e.Done() {
		return
	}
	start := time.Now()
	q, _ := l.event.Queue.(worker)
	what := q.begin("", start)
	awaitEnd(l.heap.ctx, e)
	end := time.Now()
	q.begin(what, end)
	l.waited += end.Sub(start)
}

// doing names an instruction for an error.
func (l *launch) doing(at int) string {
	if code := l.program.code; at < len(code) && code[at].cluster != nil {
		return code[at].cluster.Describe()
	}
	return "copy of an output of " + l.graph.Name
}

// runKernel runs a kernel, with the packed copy of its input if it packs one.
func (l *launch) runKernel(in *instr) error {
	if in.packing == nil {
		return l.compute(in)
	}
	ok := false
	in.packing.before(l.in[in.packing.index], l.event)
	defer func() { in.packing.after(ok) }() // also if the kernel panics
	err := l.compute(in)
	ok = err == nil
	return err
}

// compute runs a kernel, and tells its time if anyone asks.
func (l *launch) compute(in *instr) error {
	p := l.program
	if !l.timed {
		return in.kernel.Run(in.in, in.out, p.scratch)
	}
	if c := in.cluster; in.work == nil {
		in.work = &device.Work{Name: c.Name(), Nodes: c.Nodes, Cost: c.Cost()}
	}
	start := time.Now()
	err := in.kernel.Run(in.in, in.out, p.scratch)
	p.onKernel(device.KernelSpan{Work: in.work, Launch: l.event, Start: start, End: time.Now()})
	return err
}

// nonFinite finds the first NaN or Inf among the float outputs of an
// instruction.
func nonFinite(in *instr) error {
	for o, v := range in.cluster.Out {
		if v.Meta.DType != shape.Float32 {
			continue
		}
		for i, f := range shape.View[float32](in.out[o]) {
			if f-f != 0 { // NaN for NaN and for both infinities
				return &device.NonFiniteError{Node: v.Node, Value: v.Name, Index: i}
			}
		}
	}
	return nil
}
