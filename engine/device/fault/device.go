package fault

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Device is a device some of whose operations go wrong. Make it with [Wrap].
type Device struct {
	device.Device
	counter
	hangs []*hang // that were queued; under counter.mu
}

// Unwrap is the device as it was opened.
func (d *Device) Unwrap() device.Device { return d.Device }

// Compile fails if its turn has come.
func (d *Device) Compile(g *graph.Graph, o device.CompileOptions) (device.Executable, error) {
	if _, err := d.hit(Compile, "compiling "+g.Name); err != nil {
		return nil, err
	}
	return d.Device.Compile(g, o)
}

// NewStream starts a queue whose operations can go wrong.
func (d *Device) NewStream(name string) (device.Stream, error) {
	s, err := d.Device.NewStream(name)
	if err != nil {
		return nil, err
	}
	x := &stream{Stream: s, dev: d, name: name}
	if w, ok := s.(device.WriteDelayer); ok {
		return &delayer{x, w}, nil
	}
	return x, nil
}

// stream is a queue some of whose operations go wrong: before them, it waits
// for an event that fails or never happens.
type stream struct {
	device.Stream
	dev  *Device
	name string
}

// delayer is a stream whose launches can wait half-way.
type delayer struct {
	*stream
	device.WriteDelayer
}

// Running is the operation that has run longest. One that hangs is among them.
func (d *Device) Running() (longest device.Command, ok bool) {
	longest, ok = d.Device.Running()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.hangs {
		since := h.since.Load()
		if since != nil && (!ok || since.Before(longest.Since)) {
			longest, ok = device.Command{Stream: h.stream, What: h.what, Since: *since}, true
		}
	}
	return longest, ok
}

// meet queues the end of the queue if the turn of an operation has come. what
// names the operation.
func (s *stream) meet(op Op, what string) error {
	hangs, err := s.dev.hit(op, what)
	switch {
	case hangs:
		h := &hang{stream: s.name, what: what}
		s.dev.mu.Lock()
		s.dev.hangs = append(s.dev.hangs, h)
		s.dev.mu.Unlock()
		return s.WaitFor(device.Event{Queue: h, Seq: 1})
	case err != nil:
		return s.WaitFor(device.Event{Queue: failed{err}, Seq: 1})
	}
	return nil
}

// Alloc fails if its turn has come.
func (s *stream) Alloc(m shape.Meta, use device.Usage) (device.Buffer, error) {
	if _, err := s.dev.hit(Alloc, string(Alloc)); err != nil {
		return nil, err
	}
	return s.Stream.Alloc(m, use)
}

// CopyIn goes wrong if its turn has come.
func (s *stream) CopyIn(dst device.Buffer, src device.HostBuffer) error {
	if err := s.meet(CopyIn, string(CopyIn)); err != nil {
		return err
	}
	return s.Stream.CopyIn(dst, src)
}

// CopyOut goes wrong if its turn has come.
func (s *stream) CopyOut(dst device.HostBuffer, src device.Buffer) (device.Event, error) {
	if err := s.meet(CopyOut, string(CopyOut)); err != nil {
		return device.Event{}, err
	}
	return s.Stream.CopyOut(dst, src)
}

// CopyPeer goes wrong if its turn has come.
func (s *stream) CopyPeer(dst, src device.Buffer) error {
	if err := s.meet(Peer, string(Peer)); err != nil {
		return err
	}
	return s.Stream.CopyPeer(dst, src)
}

// Launch goes wrong if its turn has come.
func (s *stream) Launch(x device.Executable, in, out []device.Buffer, scratch device.Buffer) (device.Event, error) {
	if err := s.meet(Launch, x.Graph().Name); err != nil {
		return device.Event{}, err
	}
	return s.Stream.Launch(x, in, out, scratch)
}

// Compact moves buffers together, if the stream can.
func (s *stream) Compact(bytes int64, m device.Mover) (bool, error) {
	if c, ok := s.Stream.(device.Compactor); ok {
		return c.Compact(bytes, m)
	}
	return false, nil
}

// failed is a queue whose operations have failed.
type failed struct{ err error }

// Finished is true.
func (q failed) Finished(uint64) bool { return true }

// Err is the failure.
func (q failed) Err(uint64) error { return q.err }

// Await is the failure.
func (q failed) Await(context.Context, uint64) error { return q.err }

// hang is a queue whose operation does not end.
type hang struct {
	stream, what string
	since        atomic.Pointer[time.Time] // when its turn came; nil before, and after its device was given up
}

// Finished is false.
func (*hang) Finished(uint64) bool { return false }

// Err is nil: nothing has ended.
func (*hang) Err(uint64) error { return nil }

// Await waits for the end of ctx. The queue that hangs calls it.
func (h *hang) Await(ctx context.Context, _ uint64) error {
	now := time.Now()
	h.since.Store(&now)
	<-ctx.Done()
	h.since.Store(nil)
	return ctx.Err()
}
