package streams

import (
	"fmt"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// routine is a program with the buffers that a launch of it must pass.
type routine struct {
	heap    *heap
	turn    *turn
	graph   *graph.Graph
	alias   []int   // per output: the input that it aliases, or -1
	donated []bool  // per input
	scratch int64   // bytes that a launch needs
	program Program // nil on a device that computes nothing
	marks   int     // steps of the program that complete outputs before its end
	mark    []int   // per output: the number of that step among them; marks: the end
	idle    *Launch // launches that have ended, for reuse; under heap.mu
}

// Launch is one queued run of an executable. A program asks it where buffers lie,
// and when it may write. Its buffers are pinned.
type Launch struct {
	*routine
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
	switch j := s.Overwrites(l.alias); {
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
func (r *routine) prepare(in, out []device.Buffer, scratch device.Buffer, event device.Event) (*Launch, error) {
	if len(in) != len(r.donated) || len(out) != len(r.alias) {
		return nil, fmt.Errorf("%d inputs and %d outputs were passed: the executable has %d inputs and %d outputs", len(in), len(out), len(r.donated), len(r.alias))
	}
	r.heap.mu.Lock()
	defer r.heap.mu.Unlock()
	l := r.idle
	if l == nil {
		l = &Launch{routine: r, in: make([]*buffer, len(in)), out: make([]*buffer, len(out)), writes: make([]device.Event, len(in))}
	} else {
		r.idle = l.next
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
		} else if b = l.in[l.alias[k]]; out[k] == nil {
			b.state = donated
			l.heap.give(b, []device.Event{l.event})
		}
		b.ready = l.event
		b.ready.Seq -= uint64(l.marks - l.mark[k])
	}
}

// resolve checks each handle and finds its buffer. It needs heap.mu.
func (l *Launch) resolve(in, out []device.Buffer) error {
	for j, v := range l.graph.Inputs {
		b, err := l.buffer(in[j], v.Meta)
		if err != nil {
			return fmt.Errorf("input %d (%s): %w", j, v.Name, err)
		}
		l.in[j] = b
	}
	for k, v := range l.graph.Outputs {
		l.out[k] = nil
		if j := l.alias[k]; j >= 0 {
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
	if l.routine.scratch == 0 {
		return nil
	}
	if h == nil {
		return fmt.Errorf("no scratch was passed: the executable needs %d bytes", l.routine.scratch)
	}
	b, err := l.heap.own(h)
	if err == nil {
		err = b.check()
	}
	if err == nil && b.meta.Bytes() < l.routine.scratch {
		err = fmt.Errorf("it has %d bytes, the executable needs %d", b.meta.Bytes(), l.routine.scratch)
	}
	if err != nil {
		return fmt.Errorf("scratch: %w", err)
	}
	l.temps = b
	return nil
}

// buffer is the usable buffer behind a handle, if it has the metadata m.
func (l *Launch) buffer(h device.Buffer, m shape.Meta) (*buffer, error) {
	b, err := l.heap.own(h)
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
	h := l.heap
	written, read := h.mark+1, h.mark+2
	h.mark += 2
	for j, b := range l.in {
		if l.donated[j] {
			if b.mark == written {
				return fmt.Errorf("input %d is donated, and passed twice", j)
			}
			b.mark = written
		}
	}
	for j, b := range l.in {
		if l.donated[j] {
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
	l.heap.mu.Lock()
	defer l.heap.mu.Unlock()
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
func (l *Launch) putBack() { l.next, l.idle = l.idle, l }

// OpenPacked finds the packed copy of input j in one layout, or memory of that
// many bytes to make it in. off is where it is, -1 without memory; made tells
// whether the copy is there. The program calls ClosePacked after its use.
func (l *Launch) OpenPacked(j int, layout string, bytes int64) (off int64, made bool) {
	h, b := l.heap, l.in[j]
	h.mu.Lock()
	defer h.mu.Unlock()
	l.packed = b.packedAs(layout, bytes)
	c, now := l.packed, b.contents.Load()
	unchanged := now != 0 && c.last == now
	switch {
	case unchanged:
		c.reread = true
		if c.room == nil && !c.evicted {
			h.lodge(c)
		}
	case c.room != nil && !c.reread:
		h.release(c)
	default:
		c.reread = false
	}
	c.last = now
	if c.room == nil {
		return -1, false
	}
	c.inUse, c.user = true, l.event
	return c.off, c.made == now
}

// ClosePacked ends the use that OpenPacked began. ok tells whether the copy is there
// now, if it has memory.
func (l *Launch) ClosePacked(ok bool) {
	h, c := l.heap, l.packed
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.made = 0; ok && c.room != nil {
		c.made = c.last
	}
	c.inUse = false
	if c.evicted {
		h.release(c)
	}
}
