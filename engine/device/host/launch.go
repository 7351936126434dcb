package host

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// launch is one queued run of an executable: its buffers, pinned. An ended
// launch is kept for the executable's next one.
type launch struct {
	x       *executable
	in, out []*buffer      // out[k] is nil where it aliases an input
	next    *launch        // in x.idle
	held    []device.Event // per input: what its first write waits for
	holding bool           // held is not all zero
	waited  time.Duration  // for that
}

// prepare checks the arguments of a launch and pins them. Outputs become
// ready at event.
func (x *executable) prepare(in, out []device.Buffer, event device.Event) (*launch, error) {
	if len(in) != len(x.donated) || len(out) != len(x.alias) {
		return nil, fmt.Errorf("%d inputs and %d outputs were passed: %d and %d are needed", len(in), len(out), len(x.donated), len(x.alias))
	}
	d := x.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	l := x.idle
	if l == nil {
		l = &launch{x: x, in: make([]*buffer, len(in)), out: make([]*buffer, len(out)), held: make([]device.Event, len(in))}
	} else {
		x.idle = l.next
	}
	err := x.resolve(l, in, out)
	if err == nil {
		err = x.distinct(l)
	}
	if err != nil {
		x.putBack(l)
		return nil, err
	}
	for _, b := range l.in {
		b.pending++
	}
	for k, b := range l.out {
		if b == nil {
			b = l.in[x.alias[k]]
			if out[k] == nil {
				b.state = donated
			}
		} else {
			b.pending++
		}
		b.ready = event
	}
	return l, nil
}

// resolve turns handles into buffers and checks each. It needs d.mu.
func (x *executable) resolve(l *launch, in, out []device.Buffer) error {
	for j, v := range x.graph.Inputs {
		b, err := x.buffer(in[j], v.Meta)
		if err != nil {
			return fmt.Errorf("input %d (%s): %w", j, v.Name, err)
		}
		l.in[j] = b
	}
	for k, v := range x.graph.Outputs {
		l.out[k] = nil
		if j := x.alias[k]; j >= 0 {
			if out[k] != nil && out[k] != in[j] {
				return fmt.Errorf("output %d (%s) takes over input %d: pass that buffer or nil", k, v.Name, j)
			}
			continue
		}
		b, err := x.buffer(out[k], v.Meta)
		if err != nil {
			return fmt.Errorf("output %d (%s): %w", k, v.Name, err)
		}
		l.out[k] = b
	}
	return nil
}

// buffer is the usable buffer of that metadata behind a handle.
func (x *executable) buffer(h device.Buffer, m shape.Meta) (*buffer, error) {
	b, err := x.dev.own(h)
	if err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	if !b.meta.Equal(m) {
		return nil, fmt.Errorf("the buffer is %v, the graph has %v", b.meta, m)
	}
	return b, nil
}

// distinct refuses a buffer that would be read and written, or written twice.
// It needs d.mu.
func (x *executable) distinct(l *launch) error {
	d := x.dev
	written, read := d.stamp+1, d.stamp+2
	d.stamp += 2
	for j, b := range l.in {
		if x.donated[j] {
			if b.mark == written {
				return fmt.Errorf("input %d is donated, and passed twice", j)
			}
			b.mark = written
		}
	}
	for j, b := range l.in {
		if x.donated[j] {
			continue
		}
		if b.mark == written {
			return fmt.Errorf("input %d is donated as another input", j)
		}
		b.mark = read
	}
	for k, b := range l.out {
		if b == nil {
			continue
		}
		if b.mark == written || b.mark == read {
			return fmt.Errorf("output %d is also an input or another output: declare it in CompileOptions.Alias to work in place", k)
		}
		b.mark = written
	}
	return nil
}

// putBack keeps a launch for the next one. It needs d.mu.
func (x *executable) putBack(l *launch) {
	l.next, x.idle = x.idle, l
}

// release unpins the buffers; those that were donated and not taken over go
// back to the arena.
func (l *launch) release() {
	d := l.x.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range l.in {
		b.unpin()
	}
	for _, b := range l.out {
		if b != nil {
			b.unpin()
		}
	}
	l.letGo()
	l.x.putBack(l)
}

// run executes the code. It needs dev.running.
func (l *launch) run() (err error) {
	x := l.x
	defer x.dev.launches.Add(1)
	if x.dev.config.Bind == nil {
		return nil
	}
	x.point(l)
	defer l.wrote()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %s: BUG: kernel panicked: %v\n%s", x.dev.spec.ID, x.doing(), p, debug.Stack())
		}
	}()
	for x.at = range x.code {
		in := &x.code[x.at]
		if l.holding {
			l.await(in)
		}
		if in.kernel == nil {
			copy(in.out[0], in.in[0])
			continue
		}
		if err := x.runKernel(in); err != nil {
			return fmt.Errorf("%s: %s: %w", x.dev.spec.ID, x.doing(), err)
		}
		if x.finite {
			if err := nonFinite(in); err != nil {
				return fmt.Errorf("%s: %w", x.dev.spec.ID, err)
			}
		}
	}
	return nil
}

// wrote says that the outputs are new.
func (l *launch) wrote() {
	for k, b := range l.out {
		if b == nil {
			b = l.in[l.x.alias[k]]
		}
		b.wrote()
	}
}

// runKernel runs one kernel with what it keeps of its input.
func (x *executable) runKernel(in *instr) error {
	if in.keep == nil {
		return x.timeKernel(in)
	}
	ended := false
	in.keep.before(x.boundIn[in.keep.index])
	defer func() { in.keep.after(ended) }()
	err := x.timeKernel(in)
	ended = err == nil
	return err
}

// timeKernel runs one kernel, and tells how long it took if anyone asks.
func (x *executable) timeKernel(in *instr) error {
	tell := x.dev.config.OnKernel
	if tell == nil {
		return in.kernel.Run(in.in, in.out, x.scratch)
	}
	start := time.Now()
	err := in.kernel.Run(in.in, in.out, x.scratch)
	tell(in.work, time.Since(start))
	return err
}

// doing names what runs, for an error.
func (x *executable) doing() string {
	if x.at < len(x.code) && x.code[x.at].cluster != nil {
		return where(x.code[x.at].cluster)
	}
	return "copy of an output of " + x.graph.Name
}

// point makes the arguments of the code point to l's buffers and the scratch
// region. What is the same as last time is left.
func (x *executable) point(l *launch) {
	for j, b := range l.in {
		if x.boundIn[j] != b {
			x.boundIn[j] = b
			assign(x.inArgs[j], b.data)
		}
	}
	for k, b := range l.out {
		if b != nil && x.boundOut[k] != b {
			x.boundOut[k] = b
			assign(x.outArgs[k], b.data)
		}
	}
	d := x.dev
	if x.laid == d.laid {
		return
	}
	x.laid = d.laid
	for _, t := range x.temps {
		*t.arg = d.arena.bytes(d.scratch.off+t.off, t.size)
	}
	x.scratch = d.arena.bytes(d.scratch.off+x.arena, x.memory.Temporary-x.arena)
}

func assign(args []*[]byte, data []byte) {
	for _, a := range args {
		*a = data
	}
}
