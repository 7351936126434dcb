package streams

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// Stream implements device.Stream and device.Delayer: it checks operations and puts them in its
// queue. Who asked the device for it owns it, and closes it.
type Stream struct {
	queue
	owner   *Device
	reads   []delay      // DelayRead's, of the next launch; used by the goroutine that queues
	writes  []delay      // DelayWrite's, likewise
	after   device.Fence // of the last Alloc, likewise
	moves   []move       // of the last Compact, likewise
	counted bool         // the device knows that the stream launches; likewise
}

// delay is an event that the next launch waits for before it first uses a buffer.
type delay struct {
	buffer device.Buffer
	event  device.Event
}

// newStream starts a stream. Its goroutine ends in Close.
func newStream(d *Device, name string) *Stream {
	s := &Stream{owner: d}
	s.device, s.name, s.sync = d.spec.ID, name, d.config.Options.Sync
	if want := d.config.Options.WantSpans; want == nil || want(name) {
		s.onSpan = d.config.Options.OnSpan
	}
	s.ctx = d.heap.ctx
	s.start(&d.running)
	return s
}

// Close waits for the queue to end.
func (s *Stream) Close() error {
	err := s.close()
	s.owner.forget(s)
	return err
}

// Alloc takes memory for work that is queued from now on.
func (s *Stream) Alloc(m shape.Meta, use device.Usage) (device.Buffer, error) {
	s.after = s.after[:0]
	b, err := s.owner.heap.alloc(m, use, s.Record(), &s.after)
	if err != nil {
		return nil, err
	}
	for _, e := range s.after {
		if !e.Done() {
			err = errors.Join(err, s.put(command{op: opEnd, event: e}))
		}
	}
	b.bornAt(s.Record())
	if err != nil {
		return nil, errors.Join(s.wrap("alloc", err), b.Free(s.after...))
	}
	return b, nil
}

// put queues a command that uses no buffer.
func (s *Stream) put(c command) error {
	seq, err := s.reserve()
	if err != nil {
		return err
	}
	return s.commit(seq, c)
}

// CopyIn queues a copy to the device.
func (s *Stream) CopyIn(dst device.Buffer, src device.HostBuffer) error {
	seq, err := s.reserve()
	if err != nil {
		return err
	}
	b, err := s.owner.heap.own(dst)
	if err != nil {
		return s.wrap("copy-in", err)
	}
	if err := pinHost(src, b.meta.Bytes()); err != nil {
		return s.wrap("copy-in", err)
	}
	if err := b.pin(s.event(seq)); err != nil {
		unpinHost(src)
		return s.wrap("copy-in", err)
	}
	return s.commit(seq, command{op: opCopyIn, dst: b, host: src})
}

// CopyOut queues a copy to the host.
func (s *Stream) CopyOut(dst device.HostBuffer, src device.Buffer) (device.Event, error) {
	if !s.owner.spec.CopyOut {
		return device.Event{}, s.wrap("copy-out", fmt.Errorf("%w: a device of kind %q computes nothing", device.ErrUnsupported, s.owner.spec.Kind))
	}
	seq, err := s.reserve()
	if err != nil {
		return device.Event{}, err
	}
	b, err := s.owner.heap.own(src)
	if err != nil {
		return device.Event{}, s.wrap("copy-out", err)
	}
	if err := pinHost(dst, b.meta.Bytes()); err != nil {
		return device.Event{}, s.wrap("copy-out", err)
	}
	if err := b.pin(device.Event{}); err != nil {
		unpinHost(dst)
		return device.Event{}, s.wrap("copy-out", err)
	}
	return s.event(seq), s.commit(seq, command{op: opCopyOut, src: b, host: dst})
}

// CopyPeer queues a copy from another device of the same kind, or from another
// buffer of this device, once src is ready.
func (s *Stream) CopyPeer(dst, src device.Buffer) error {
	to, err := s.owner.heap.own(dst)
	if err != nil {
		return s.wrap("peer copy", err)
	}
	from, ok := src.(*buffer)
	if !ok || from == nil || from.heap.kind != s.owner.spec.Kind {
		return s.wrap("peer copy", fmt.Errorf("the source is not on a device of kind %q: copy through the host", s.owner.spec.Kind))
	}
	if !to.meta.Equal(from.meta) || to == from {
		return s.wrap("peer copy", fmt.Errorf("from %v to %v: two buffers of equal metadata are needed", from.meta, to.meta))
	}
	if err := s.WaitForEnd(from.Ready()); err != nil {
		return err
	}
	seq, err := s.reserve()
	if err != nil {
		return err
	}
	if err := from.pin(device.Event{}); err != nil {
		return s.wrap("peer copy", err)
	}
	if err := to.pin(s.event(seq)); err != nil {
		from.unpin()
		return s.wrap("peer copy", err)
	}
	return s.commit(seq, command{op: opCopyPeer, dst: to, src: from})
}

// Repeat queues a copy again that failed on another stream.
func (s *Stream) Repeat(failed device.Event) (device.Event, error) {
	seq, err := s.reserve()
	if err != nil {
		return device.Event{}, err
	}
	q, ok := failed.Queue.(*queue)
	if !ok || q.device != s.device {
		return device.Event{}, s.wrap("repeat", errNotFailed)
	}
	c, ok := q.takeFailure(failed.Seq)
	if !ok {
		return device.Event{}, s.wrap("repeat", errNotFailed)
	}
	if c.dst != nil {
		c.dst.repeated(failed, s.event(seq))
	}
	return s.event(seq), s.commit(seq, c)
}

// errNotFailed says that an event is of no copy that can be repeated.
var errNotFailed = errors.New("the event does not belong to a failed copy that can be repeated: repeat a failed copy of this device once, before its stream is closed")

// WaitFor makes later operations of the stream wait for e, and fail if e failed.
func (s *Stream) WaitFor(e device.Event) error {
	seq, err := s.reserve()
	if err != nil {
		return err
	}
	if e.Queue == nil || e.Queue == device.Queue(&s.queue) || e.Done() && e.Err() == nil {
		return nil
	}
	return s.commit(seq, command{op: opWait, event: e})
}

// WaitForEnd makes later operations of the stream wait until e has ended.
func (s *Stream) WaitForEnd(e device.Event) error {
	if e.Done() || e.Queue == device.Queue(&s.queue) {
		_, err := s.reserve()
		return err
	}
	return s.put(command{op: opEnd, event: e})
}

// Launch queues an executable.
func (s *Stream) Launch(x device.Executable, in, out []device.Buffer, scratch device.Buffer) (device.Event, error) {
	e, ok := x.(*executable)
	if !ok || e == nil || e.owner != s.owner {
		return device.Event{}, s.wrap("launch", fmt.Errorf("the executable was not compiled by this device"))
	}
	if err := s.settleDelays(e, in); err != nil {
		return device.Event{}, err
	}
	seq, err := s.reserve()
	if err != nil {
		return device.Event{}, err
	}
	last := seq + uint64(e.marks)
	event := s.event(last)
	l, err := e.prepare(in, out, scratch, event)
	if err != nil {
		return device.Event{}, s.wrap("launch of "+e.graph.Name, err)
	}
	for _, d := range s.reads {
		l.delayRead(slices.Index(in, d.buffer), d.event)
	}
	for _, d := range s.writes {
		l.delayWrite(slices.Index(in, d.buffer), d.event)
	}
	s.reads, s.writes = s.reads[:0], s.writes[:0]
	return event, s.commit(last, command{op: opLaunch, launch: l})
}

// Run implements device.Runner.
func (s *Stream) Run(x device.Executable, in, out []device.Buffer, scratch device.Buffer) (done device.Event, ok bool, err error) {
	e, known := x.(*executable)
	if !known || e == nil || e.owner != s.owner || !s.owner.config.RunsHere || s.onSpan != nil || len(s.reads)+len(s.writes) > 0 {
		return done, false, nil // Launch tells of mistakes
	}
	if !s.counted {
		s.owner.alone(&s.queue)
		s.counted = true
	}
	if !s.owner.turn.TryLock() {
		return done, false, nil
	}
	defer s.owner.turn.Unlock()
	seq, ok := s.enter(e.graph.Name)
	if !ok {
		return done, false, nil
	}
	seq += uint64(e.marks)
	done = s.event(seq)
	l, err := e.prepare(in, out, scratch, done)
	if err != nil {
		s.leave(0, nil)
		return device.Event{}, false, s.wrap("launch of "+e.graph.Name, err)
	}
	err = l.run()
	l.release()
	s.leave(seq, err)
	return done, true, err
}

// DelayRead implements device.Delayer.
func (s *Stream) DelayRead(b device.Buffer, e device.Event) {
	if !e.Done() || e.Err() != nil {
		s.reads = append(s.reads, delay{b, e})
	}
}

// DelayWrite implements device.Delayer.
func (s *Stream) DelayWrite(b device.Buffer, e device.Event) {
	if !e.Done() {
		s.writes = append(s.writes, delay{b, e})
	}
}

// settleDelays leaves in s.reads and s.writes those that a launch of x can wait for
// half-way. The stream waits for the others before the launch begins.
//
// A launch that waits keeps all other launches from the device. So it must not
// wait for one of them: if all launches come from one stream, whatever an event
// depends on was queued before.
func (s *Stream) settleDelays(x *executable, in []device.Buffer) error {
	alone := s.owner.alone(&s.queue) && s.owner.config.Bind != nil
	inLaunch := func(d delay) (j int, ok bool) {
		j = slices.Index(in, d.buffer)
		return j, alone && j >= 0 && d.event.Queue != device.Queue(&s.queue)
	}
	var err error
	s.reads = slices.DeleteFunc(s.reads, func(d delay) bool {
		if _, ok := inLaunch(d); ok {
			return false
		}
		err = cmp.Or(err, s.WaitFor(d.event))
		return true
	})
	s.writes = slices.DeleteFunc(s.writes, func(d delay) bool {
		if j, ok := inLaunch(d); ok && x.donated[j] {
			return false
		}
		err = cmp.Or(err, s.WaitForEnd(d.event))
		return true
	})
	return err
}

// Compact implements device.Compactor.
func (s *Stream) Compact(bytes int64, m device.Mover) (bool, error) {
	h := s.owner.heap
	s.moves = h.inTheWay(s.moves[:0], bytes, m)
	for _, x := range s.moves {
		if err := h.supply(x); err != nil {
			return false, s.wrap("move", err)
		}
		to, done, err := s.move(x, m.Uses(x.buffer))
		m.Moved(x.buffer, to, done)
		if err != nil {
			return false, s.wrap("move", err)
		}
	}
	return h.fits(bytes), nil
}

// move queues the move of one buffer.
func (s *Stream) move(x move, uses []device.Event) (to *buffer, done device.Event, err error) {
	s.after = append(s.after[:0], uses...)
	if !slices.ContainsFunc(uses, func(e device.Event) bool { return e.Queue != nil }) {
		s.after.Add(x.buffer.bornOn()) // it waits for the uses before
	}
	to, rest := s.owner.heap.move(x, &s.queue, &s.after)
	for _, e := range s.after {
		if !e.Done() {
			err = errors.Join(err, s.put(command{op: opEnd, event: e}))
		}
	}
	seq, more := s.reserve()
	done = s.event(seq)
	s.owner.heap.moved(to, rest, done)
	return to, done, errors.Join(err, more, s.commit(seq, command{op: opMove, dst: to, src: x.buffer}))
}

// wrap puts the stream and the operation in front of an error.
func (s *Stream) wrap(what string, err error) error {
	if errors.Is(err, device.ErrClosed) {
		return err
	}
	return fmt.Errorf("%s: stream %q: %s: %w", s.device, s.name, what, err)
}
