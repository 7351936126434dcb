package streams

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// Launch is one queued run of an executable, which keeps it for reuse. A program asks it where
// buffers lie, and when it may write. Its buffers are pinned.
type Launch struct {
	x       *executable
	in, out []*buffer    // out[k] is nil if output k aliases an input
	temps   *buffer      // the scratch; nil if none is needed
	event   device.Event // its end
	next    *Launch      // in idle

	reads   []arrival      // inputs that may not be there yet
	late    error          // the failure of one of these; nil if there is none
	writes  []device.Event // per input: the event before which it must not be overwritten
	delayed bool           // some of writes is not zero
	waited  time.Duration  // time that the run spent waiting for events
	marked  int            // marks so far
	packed  *packed        // the one in use
}

// arrival is an event before which a buffer must not be read.
type arrival struct {
	buffer *buffer
	event  device.Event
}

// Event is the end of the launch.
func (l *Launch) Event() device.Event { return l.event }

// queue is the queue of the stream that the launch is on.
func (l *Launch) queue() *queue { return l.event.Queue.(*queue) }

// Input is the offset of the buffer of input j.
func (l *Launch) Input(j int) int64 { return l.in[j].off }

// Output is the offset of the buffer of output k; -1 if it takes over an input's.
func (l *Launch) Output(k int) int64 {
	if l.out[k] == nil {
		return -1
	}
	return l.out[k].off
}

// Scratch is the offset of the scratch; -1 if none is needed.
func (l *Launch) Scratch() int64 {
	if l.temps == nil {
		return -1
	}
	return l.temps.off
}

// Offset is where a storage of the launch's plan lies in the device's memory. An empty
// storage may lie nowhere.
func (l *Launch) Offset(s *planner.Storage) int64 {
	switch j := s.Overwrites(l.x.alias); {
	case s.Class == planner.Temporary:
		return l.Scratch() + s.Off
	case j >= 0:
		return l.Input(j)
	case s.Class == planner.Output:
		return l.Output(s.Index)
	}
	return l.Input(s.Index)
}

// prepare checks the buffers of a launch and pins them. event is its end; the numbers
// just before it are those of its marks.
func (x *executable) prepare(in, out []device.Buffer, scratch device.Buffer, event device.Event) (*Launch, error) {
	if len(in) != len(x.donated) || len(out) != len(x.alias) {
		return nil, fmt.Errorf("%d inputs and %d outputs were passed: the executable has %d inputs and %d outputs", len(in), len(out), len(x.donated), len(x.alias))
	}
	x.owner.heap.mu.Lock()
	defer x.owner.heap.mu.Unlock()
	l := x.idle
	if l == nil {
		l = &Launch{x: x, in: make([]*buffer, len(in)), out: make([]*buffer, len(out)), writes: make([]device.Event, len(in))}
	} else {
		x.idle = l.next
	}
	l.event = event
	err := l.resolve(in, out)
	if err == nil {
		err = l.resolveScratch(scratch)
	}
	if err == nil {
		err = l.distinct()
	}
	if err != nil {
		l.putBack()
		return nil, err
	}
	l.pin(out)
	return l, nil
}

// pin pins the buffers. A donated buffer that no output takes over goes back to
// the heap. It needs heap.mu.
func (l *Launch) pin(out []device.Buffer) {
	for _, b := range l.in {
		b.pinLocked()
	}
	if l.temps != nil {
		l.temps.pinLocked()
	}
	for k, b := range l.out {
		if b != nil {
			b.pinLocked()
		} else if b = l.in[l.x.alias[k]]; out[k] == nil {
			b.state = donated
			l.x.owner.heap.give(b, []device.Event{l.event})
		}
		b.ready = l.event
		b.ready.Seq -= uint64(l.x.marks - l.x.mark[k])
	}
}

// resolve checks each handle and finds its buffer. It needs heap.mu.
func (l *Launch) resolve(in, out []device.Buffer) error {
	for j, v := range l.x.graph.Inputs {
		b, err := l.buffer(in[j], v.Meta)
		if err != nil {
			return fmt.Errorf("input %d (%s): %w", j, v.Name, err)
		}
		l.in[j] = b
	}
	for k, v := range l.x.graph.Outputs {
		l.out[k] = nil
		if j := l.x.alias[k]; j >= 0 {
			if out[k] != nil && out[k] != in[j] {
				return fmt.Errorf("output %d (%s) takes over input %d: pass that buffer or nil", k, v.Name, j)
			}
			continue
		}
		b, err := l.buffer(out[k], v.Meta)
		if err != nil {
			return fmt.Errorf("output %d (%s): %w", k, v.Name, err)
		}
		l.out[k] = b
	}
	return nil
}

// resolveScratch checks the scratch. It needs heap.mu.
func (l *Launch) resolveScratch(h device.Buffer) error {
	l.temps = nil
	if l.x.memory.Temporary == 0 {
		return nil
	}
	if h == nil {
		return fmt.Errorf("no scratch was passed: the executable needs %d bytes", l.x.memory.Temporary)
	}
	b, err := l.x.owner.heap.own(h)
	if err == nil {
		err = b.check()
	}
	if err == nil && b.meta.Bytes() < l.x.memory.Temporary {
		err = fmt.Errorf("it has %d bytes, the executable needs %d", b.meta.Bytes(), l.x.memory.Temporary)
	}
	if err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	l.temps = b
	return nil
}

// buffer is the usable buffer behind a handle, if it has the metadata m.
func (l *Launch) buffer(h device.Buffer, m shape.Meta) (*buffer, error) {
	b, err := l.x.owner.heap.own(h)
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
// It marks the buffers to find those passed twice. It needs heap.mu.
func (l *Launch) distinct() error {
	h := l.x.owner.heap
	// Two marks that no buffer has: of those that the launch writes, and of those that it reads.
	written, read := h.mark+1, h.mark+2
	h.mark += 2
	for j, b := range l.in {
		if l.x.donated[j] {
			if b.mark == written {
				return fmt.Errorf("input %d is donated, but the same buffer is passed as another input: pass a copy", j)
			}
			b.mark = written
		}
	}
	for j, b := range l.in {
		if l.x.donated[j] {
			continue
		}
		if b.mark == written {
			return fmt.Errorf("input %d is the same buffer as an input that is donated: pass a copy", j)
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
	if b := l.temps; b != nil && (b.mark == written || b.mark == read) {
		return fmt.Errorf("the scratch is also an input or an output")
	}
	return nil
}

// delayRead makes the run wait for e before it first reads input j.
func (l *Launch) delayRead(j int, e device.Event) {
	l.reads = append(l.reads, arrival{l.in[j], e})
}

// delayWrite makes the run wait for e before it first overwrites input j.
func (l *Launch) delayWrite(j int, e device.Event) {
	l.writes[j], l.delayed = e, true
}

// release unpins the buffers.
func (l *Launch) release() {
	l.x.owner.heap.mu.Lock()
	defer l.x.owner.heap.mu.Unlock()
	for _, b := range l.in {
		b.unpinLocked()
	}
	for _, b := range l.out {
		if b != nil {
			b.unpinLocked()
		}
	}
	if l.temps != nil {
		l.temps.unpinLocked()
	}
	if l.delayed {
		clear(l.writes)
	}
	clear(l.reads)
	l.reads, l.late, l.delayed, l.waited, l.marked = l.reads[:0], nil, false, 0, 0
	l.putBack()
}

// putBack keeps a launch for reuse. It needs heap.mu.
func (l *Launch) putBack() { l.next, l.x.idle = l.x.idle, l }

// run runs the program. It needs the device's turn.
func (l *Launch) run() error {
	defer l.x.owner.launches.Add(1)
	defer l.awaitDelays()
	if l.x.program == nil {
		return nil
	}
	defer l.wrote()
	err := l.compute()
	switch {
	case err == nil:
		return l.arrived(nil)
	case l.late != nil:
		return l.late
	}
	return fmt.Errorf("%s: %w", l.x.owner.heap.id, err)
}

// compute runs the program. A panic of a kernel is an error, since it may be that of an op
// which the user's program brings.
func (l *Launch) compute() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s panicked: %s", l.x.graph.Name, panics.Text(r))
		}
	}()
	return l.x.program.Run(l)
}

// Completed tells that the outputs are ready that a step completes. Steps are told of in
// the order of the plan.
func (l *Launch) Completed(st *planner.Step) {
	if len(st.Completes) == 0 {
		return
	}
	for _, k := range st.Completes {
		l.out[k].wrote()
	}
	mark := l.x.mark[st.Completes[0]]
	l.marked = mark + 1
	l.queue().reach(l.event.Seq - uint64(l.x.marks-mark))
}

// wrote gives the contents of the outputs that did not count as complete before new
// numbers.
func (l *Launch) wrote() {
	for k, b := range l.out {
		if l.x.mark[k] < l.marked {
			continue
		}
		if b == nil {
			b = l.in[l.x.alias[k]]
		}
		b.wrote()
	}
}

// Late reports whether Await would wait for an input that a step reads.
func (l *Launch) Late(st *planner.Step) bool {
	return slices.ContainsFunc(l.reads, func(a arrival) bool {
		return !a.event.Done() && slices.ContainsFunc(st.Reads, func(j int) bool { return l.in[j] == a.buffer })
	})
}

// Await waits until the program may run a step of its plan: until the inputs that it
// is the first to read are there. Before it overwrites an input in place, all inputs
// must be there, so that a launch that fails for want of one leaves them as they were,
// and the other users of the buffer must have ended, well or not. It fails if contents
// did not arrive; then Run ends with that error.
func (l *Launch) Await(st *planner.Step) error {
	if len(l.reads) > 0 {
		for _, j := range st.Reads {
			if err := l.arrived(l.in[j]); err != nil {
				return err
			}
		}
		if len(st.Overwrites) > 0 {
			if err := l.arrived(nil); err != nil {
				return err
			}
		}
	}
	if l.delayed {
		for _, j := range st.Overwrites {
			l.awaitEnd(l.writes[j])
		}
	}
	return nil
}

// arrived waits until the contents of a buffer are there, or of all inputs if it is
// nil. Of the events of a buffer, the last one ends last, and the first one that
// failed is the cause of the others' failures.
func (l *Launch) arrived(b *buffer) error {
	for i := len(l.reads) - 1; i >= 0; i-- {
		if a := &l.reads[i]; b == nil || a.buffer == b {
			l.awaitEnd(a.event)
		}
	}
	for i := range l.reads {
		if a := &l.reads[i]; b == nil || a.buffer == b {
			if err := a.event.Wait(l.x.owner.heap.ctx); err != nil {
				l.late = err
				return err
			}
		}
	}
	return nil
}

// awaitDelays waits for all events that are left: of inputs that no instruction
// uses, or that a failed launch did not come to. Who waits for the launch need not
// wait for them.
func (l *Launch) awaitDelays() {
	for i := range l.reads {
		l.awaitEnd(l.reads[i].event)
	}
	if l.delayed {
		for _, e := range l.writes {
			l.awaitEnd(e)
		}
	}
}

// awaitEnd waits for an event, and counts the time.
func (l *Launch) awaitEnd(e device.Event) {
	if e.Done() {
		return
	}
	start := time.Now()
	q := l.queue()
	what := q.begin("", start)
	awaitEnd(l.x.owner.heap.ctx, e)
	end := time.Now()
	q.begin(what, end)
	l.waited += end.Sub(start)
}
