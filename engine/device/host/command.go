package host

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// opcode says what a command does.
type opcode uint8

const (
	opNone opcode = iota
	opCopyIn
	opCopyOut
	opCopyPeer
	opLaunch
	opWait
)

// command is one queued operation. Which fields count depends on op. The
// buffers in it are pinned until release.
type command struct {
	op       opcode
	dst, src *buffer
	host     device.HostBuffer
	launch   *launch
	event    device.Event
}

// run does the work of a command that is no wait.
func (c *command) run() error {
	switch c.op {
	case opCopyIn:
		defer c.dst.wrote()
		return c.copyHost(c.dst, false)
	case opCopyOut:
		return c.copyHost(c.src, true)
	case opCopyPeer:
		copy(c.dst.data, c.src.data)
		c.dst.wrote()
	case opLaunch:
		return c.launch.run()
	default:
		return fmt.Errorf("BUG: command with opcode %d", c.op)
	}
	return nil
}

// copyHost copies between host memory and b. A host buffer that is not of this
// package can have been freed by its owner too early.
func (c *command) copyHost(b *buffer, out bool) error {
	h := hostBytes(c.host)
	switch {
	case int64(len(h)) != b.size:
		return fmt.Errorf("%s: copy of %v: the host buffer was freed before the copy ran", b.dev.spec.ID, b.meta)
	case out:
		copy(h, b.data)
	default:
		copy(b.data, h) // nothing where memory is only counted
	}
	return nil
}

// what names the command for people.
func (c *command) what() string {
	switch c.op {
	case opCopyIn:
		return "copy-in"
	case opCopyOut:
		return "copy-out"
	case opCopyPeer:
		return "peer"
	}
	return c.launch.x.graph.Name
}

// release unpins what the command touched.
func (c *command) release() {
	if c.dst != nil {
		unpin(c.dst)
	}
	if c.src != nil {
		unpin(c.src)
	}
	if h, ok := device.Whole(c.host).(*hostBuffer); ok {
		h.unpin()
	}
	if c.launch != nil {
		c.launch.release()
	}
}

func unpin(b *buffer) {
	b.dev.mu.Lock()
	defer b.dev.mu.Unlock()
	b.unpin()
}

// hostBytes is the memory of a pinned host buffer, also after Free.
func hostBytes(h device.HostBuffer) []byte {
	if own, ok := h.(*hostBuffer); ok {
		return own.data
	}
	return h.Bytes()
}

// pinHost keeps host memory through a queued copy of n bytes.
func pinHost(h device.HostBuffer, n int64) error {
	if h == nil {
		return fmt.Errorf("host buffer is nil")
	}
	if have := int64(len(hostBytes(h))); have != n {
		return fmt.Errorf("host buffer has %d bytes, the device buffer %d: they must be equal", have, n)
	}
	if own, ok := device.Whole(h).(*hostBuffer); ok {
		return own.pin()
	}
	return nil
}

// pin keeps b through a queued operation, which writes it if written is not
// the zero event.
func pin(b *buffer, written device.Event) error {
	b.dev.mu.Lock()
	defer b.dev.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	b.pending++
	if written.Queue != nil {
		b.ready = written
	}
	return nil
}

// own is the device's own buffer behind a handle.
func (d *Device) own(b device.Buffer) (*buffer, error) {
	own, ok := b.(*buffer)
	if !ok || own == nil {
		return nil, fmt.Errorf("buffer is nil or of another kind of device")
	}
	if own.dev != d {
		return nil, fmt.Errorf("buffer is on %s: copy it to %s first", own.dev.spec.ID, d.spec.ID)
	}
	return own, nil
}

// CopyIn queues a copy to the device.
func (s *Stream) CopyIn(dst device.Buffer, src device.HostBuffer) error {
	seq, err := s.reserve()
	if err != nil {
		return err
	}
	b, err := s.dev.own(dst)
	if err != nil {
		return s.wrap("copy-in", err)
	}
	if err := pinHost(src, b.size); err != nil {
		return s.wrap("copy-in", err)
	}
	if err := pin(b, device.Event{Queue: s, Seq: seq}); err != nil {
		unpinHost(src)
		return s.wrap("copy-in", err)
	}
	return s.commit(seq, command{op: opCopyIn, dst: b, host: src})
}

func unpinHost(h device.HostBuffer) {
	if own, ok := device.Whole(h).(*hostBuffer); ok {
		own.unpin()
	}
}

// CopyOut queues a copy to the host.
func (s *Stream) CopyOut(dst device.HostBuffer, src device.Buffer) (device.Event, error) {
	if !s.dev.spec.CopyOut {
		return device.Event{}, s.wrap("copy-out", fmt.Errorf("%w: a device of kind %q computes nothing", device.ErrUnsupported, s.dev.spec.Kind))
	}
	seq, err := s.reserve()
	if err != nil {
		return device.Event{}, err
	}
	b, err := s.dev.own(src)
	if err != nil {
		return device.Event{}, s.wrap("copy-out", err)
	}
	if err := pinHost(dst, b.size); err != nil {
		return device.Event{}, s.wrap("copy-out", err)
	}
	if err := pin(b, device.Event{}); err != nil {
		unpinHost(dst)
		return device.Event{}, s.wrap("copy-out", err)
	}
	return device.Event{Queue: s, Seq: seq}, s.commit(seq, command{op: opCopyOut, src: b, host: dst})
}

// CopyPeer queues a copy from another device of the same kind, or from another
// buffer of this one, once src is ready.
func (s *Stream) CopyPeer(dst, src device.Buffer) error {
	to, err := s.dev.own(dst)
	if err != nil {
		return s.wrap("peer copy", err)
	}
	from, ok := src.(*buffer)
	if !ok || from == nil || from.dev.spec.Kind != s.dev.spec.Kind {
		return s.wrap("peer copy", fmt.Errorf("the source is not on a device of kind %q: copy through the host", s.dev.spec.Kind))
	}
	if !to.meta.Equal(from.meta) || to == from {
		return s.wrap("peer copy", fmt.Errorf("from %v to %v: two buffers of equal metadata are needed", from.meta, to.meta))
	}
	if err := s.WaitFor(from.Ready()); err != nil {
		return err
	}
	seq, err := s.reserve()
	if err != nil {
		return err
	}
	if err := pin(from, device.Event{}); err != nil {
		return s.wrap("peer copy", err)
	}
	if err := pin(to, device.Event{Queue: s, Seq: seq}); err != nil {
		unpin(from)
		return s.wrap("peer copy", err)
	}
	return s.commit(seq, command{op: opCopyPeer, dst: to, src: from})
}

// WaitFor makes what is queued later wait for e, and fail if e failed.
func (s *Stream) WaitFor(e device.Event) error {
	seq, err := s.reserve()
	if err != nil {
		return err
	}
	if e.Queue == nil || e.Queue == device.Queue(s) || e.Done() && e.Err() == nil {
		return nil
	}
	return s.commit(seq, command{op: opWait, event: e})
}

// Launch queues an executable.
func (s *Stream) Launch(x device.Executable, in, out []device.Buffer) (device.Event, error) {
	e, ok := x.(*executable)
	if !ok || e == nil || e.dev != s.dev {
		return device.Event{}, s.wrap("launch", fmt.Errorf("the executable was not compiled by this device"))
	}
	if err := s.holdsOf(e, in); err != nil {
		return device.Event{}, err
	}
	seq, err := s.reserve()
	if err != nil {
		return device.Event{}, err
	}
	event := device.Event{Queue: s, Seq: seq}
	l, err := e.prepare(in, out, event)
	if err != nil {
		return device.Event{}, s.wrap("launch of "+e.graph.Name, err)
	}
	l.take(s.holds, in)
	s.holds = s.holds[:0]
	return event, s.commit(seq, command{op: opLaunch, launch: l})
}
