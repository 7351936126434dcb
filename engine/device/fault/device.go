package fault

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Operation is an operation that a device is asked for.
type Operation struct {
	Device device.ID
	Op     Op
	What   string            // a segment's name, or Op
	Host   device.HostBuffer // of CopyIn and CopyOut; else nil
	Stream device.Stream     // the queue; nil for Compile
}

// Outcome is what an operation meets. The zero Outcome lets it be.
type Outcome struct {
	// Refused is the error with which the call fails.
	Refused error
	// After is an event that the operation waits for, and with which it fails. Alloc
	// and Compile ignore it.
	After device.Event
	// Delay is how much longer the operation takes. Alloc ignores it.
	Delay time.Duration
}

// Hook is asked before each operation of a device. It is called from several
// goroutines.
type Hook func(Operation) Outcome

// Intercept has every operation of devices meet what a hook says. The caller closes
// the devices themselves.
func Intercept(devs []device.Device, h Hook) []device.Device {
	all := make([]device.Device, len(devs))
	for i, d := range devs {
		all[i] = &Device{Device: d, hook: h}
	}
	return all
}

// Device is a device some of whose operations go wrong. Make it with [Wrap] or
// [Intercept].
type Device struct {
	device.Device
	hook   Hook
	faults *counter // whose hook it is; nil without Wrap

	mu     sync.Mutex
	stalls []*stall // that were queued and have not ended
}

// Unwrap is the device as it was opened.
func (d *Device) Unwrap() device.Device { return d.Device }

// meet asks the hook.
func (d *Device) meet(op Op, what string, s device.Stream, h device.HostBuffer) Outcome {
	return d.hook(Operation{Device: d.ID(), Op: op, What: what, Stream: s, Host: h})
}

// Compile fails if its turn has come.
func (d *Device) Compile(g *graph.Graph, o device.CompileOptions) (device.Executable, error) {
	x := d.meet(Compile, "compiling "+g.Name, nil, nil)
	if x.Refused != nil {
		return nil, x.Refused
	}
	for end := time.Now().Add(x.Delay); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if o.Stop != nil && o.Stop() != nil {
			break // the device's Compile ends with that error
		}
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
	if w, ok := s.(device.Delayer); ok {
		return &delayer{x, w}, nil
	}
	return x, nil
}

// Running is the operation that has run longest. One that hangs is among them.
func (d *Device) Running() (longest device.Command, ok bool) {
	longest, ok = d.Device.Running()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.stalls {
		since := x.since.Load()
		if since != nil && (!ok || since.Before(longest.Since)) {
			longest, ok = device.Command{Stream: x.on.name, What: x.what, Since: *since}, true
		}
	}
	return longest, ok
}

// stalled records a stall that is queued.
func (d *Device) stalled(x *stall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stalls = append(slices.DeleteFunc(d.stalls, func(x *stall) bool { return x.over.Load() }), x)
}

// stream is a queue some of whose operations go wrong: before those that fail or hang, it
// waits for an event that fails or never happens.
type stream struct {
	device.Stream
	dev  *Device
	name string
}

// delayer is a stream whose launches can wait half-way.
type delayer struct {
	*stream
	device.Delayer
}

// meet queues what an operation meets.
func (s *stream) meet(op Op, what string, h device.HostBuffer) error {
	o := s.dev.meet(op, what, s.Stream, h)
	if o.Delay > 0 {
		s.Slow(o.Delay)
	}
	if o.Refused != nil || o.After == (device.Event{}) {
		return o.Refused
	}
	if x, ok := o.After.Queue.(*stall); ok {
		x.on, x.what = s, what
		s.dev.stalled(x)
	}
	return s.WaitFor(o.After)
}

// Cancel skips what has not begun. Operations that hang then do not begin to.
func (s *stream) Cancel(cause error) {
	s.Stream.Cancel(cause)
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	for _, x := range s.dev.stalls {
		if x.on == s && x.since.Load() == nil {
			x.cancel()
		}
	}
}

// Alloc fails if its turn has come.
func (s *stream) Alloc(m shape.Meta, use device.Usage) (device.Buffer, error) {
	if err := s.dev.meet(Alloc, string(Alloc), s.Stream, nil).Refused; err != nil {
		return nil, err
	}
	return s.Stream.Alloc(m, use)
}

// CopyIn goes wrong if its turn has come.
func (s *stream) CopyIn(dst device.Buffer, src device.HostBuffer) error {
	if err := s.meet(CopyIn, string(CopyIn), src); err != nil {
		return err
	}
	return s.Stream.CopyIn(dst, src)
}

// CopyOut goes wrong if its turn has come.
func (s *stream) CopyOut(dst device.HostBuffer, src device.Buffer) (device.Event, error) {
	if err := s.meet(CopyOut, string(CopyOut), dst); err != nil {
		return device.Event{}, err
	}
	return s.Stream.CopyOut(dst, src)
}

// CopyPeer goes wrong if its turn has come.
func (s *stream) CopyPeer(dst, src device.Buffer) error {
	if err := s.meet(Peer, string(Peer), nil); err != nil {
		return err
	}
	return s.Stream.CopyPeer(dst, src)
}

// Repeat goes wrong if its turn has come.
func (s *stream) Repeat(failed device.Event) (device.Event, error) {
	if err := s.meet(Repeat, string(Repeat), nil); err != nil {
		return device.Event{}, err
	}
	return s.Stream.Repeat(failed)
}

// Launch goes wrong if its turn has come.
func (s *stream) Launch(x device.Executable, in, out []device.Buffer, scratch device.Buffer) (device.Event, error) {
	if err := s.meet(Launch, x.Graph().Name, nil); err != nil {
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

// Fails is an event that has failed.
func Fails(err error) device.Event { return device.Event{Queue: failed{err}, Seq: 1} }

// NeverEnds is an event that never happens.
func NeverEnds() device.Event {
	return device.Event{Queue: &stall{skipped: make(chan struct{})}, Seq: 1}
}

// failed is a queue whose operations have failed.
type failed struct{ err error }

// Finished is true.
func (q failed) Finished(uint64) bool { return true }

// Err is the failure.
func (q failed) Err(uint64) error { return q.err }

// Await is the failure.
func (q failed) Await(context.Context, uint64) error { return q.err }

// stall is a queue whose one operation begins when another queue waits for it, and never ends by itself.
type stall struct {
	on      *stream // that it holds up
	what    string
	since   atomic.Pointer[time.Time] // its start; nil before, and once its device is given up
	over    atomic.Bool               // it was cancelled
	skip    sync.Once
	skipped chan struct{} // closed when it shall not begin
}

// cancel ends the operation before it begins.
func (x *stall) cancel() {
	x.skip.Do(func() {
		x.over.Store(true)
		close(x.skipped)
	})
}

// Finished tells whether the operation was cancelled.
func (x *stall) Finished(uint64) bool { return x.over.Load() }

// Err is nil: it does not fail.
func (*stall) Err(uint64) error { return nil }

// Await waits until the operation is cancelled, or for the end of ctx. The queue that it holds up calls it.
func (x *stall) Await(ctx context.Context, _ uint64) error {
	now := time.Now()
	x.since.Store(&now)
	defer x.since.Store(nil)
	select {
	case <-x.skipped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
