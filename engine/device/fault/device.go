package fault

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Device is a device some of whose operations go wrong. Make it with [Wrap].
type Device struct {
	device.Device
	counter
}

// Compile fails if its turn has come.
func (d *Device) Compile(g *graph.Graph, o device.CompileOptions) (device.Executable, error) {
	if _, err := d.hit(Compile); err != nil {
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
	x := &stream{Stream: s, dev: d}
	if w, ok := s.(device.WriteDelayer); ok {
		return &delayer{x, w}, nil
	}
	return x, nil
}

// stream is a queue some of whose operations go wrong: before them, it waits
// for an event that fails or never happens.
type stream struct {
	device.Stream
	dev *Device
}

// delayer is a stream whose launches can wait half-way.
type delayer struct {
	*stream
	device.WriteDelayer
}

// meet queues the end of the queue if an operation's turn has come.
func (s *stream) meet(op Op) error {
	hangs, err := s.dev.hit(op)
	switch {
	case hangs:
		return s.WaitFor(device.Event{Queue: never{}, Seq: 1})
	case err != nil:
		return s.WaitFor(device.Event{Queue: failed{err}, Seq: 1})
	}
	return nil
}

// Alloc fails if its turn has come.
func (s *stream) Alloc(m shape.Meta, use device.Usage) (device.Buffer, error) {
	if _, err := s.dev.hit(Alloc); err != nil {
		return nil, err
	}
	return s.Stream.Alloc(m, use)
}

// CopyIn goes wrong if its turn has come.
func (s *stream) CopyIn(dst device.Buffer, src device.HostBuffer) error {
	if err := s.meet(CopyIn); err != nil {
		return err
	}
	return s.Stream.CopyIn(dst, src)
}

// CopyOut goes wrong if its turn has come.
func (s *stream) CopyOut(dst device.HostBuffer, src device.Buffer) (device.Event, error) {
	if err := s.meet(CopyOut); err != nil {
		return device.Event{}, err
	}
	return s.Stream.CopyOut(dst, src)
}

// CopyPeer goes wrong if its turn has come.
func (s *stream) CopyPeer(dst, src device.Buffer) error {
	if err := s.meet(Peer); err != nil {
		return err
	}
	return s.Stream.CopyPeer(dst, src)
}

// Launch goes wrong if its turn has come.
func (s *stream) Launch(x device.Executable, in, out []device.Buffer, scratch device.Buffer) (device.Event, error) {
	if err := s.meet(Launch); err != nil {
		return device.Event{}, err
	}
	return s.Stream.Launch(x, in, out, scratch)
}

// failed is a queue whose operations have failed.
type failed struct{ err error }

// Finished is true.
func (q failed) Finished(uint64) bool { return true }

// Err is the failure.
func (q failed) Err(uint64) error { return q.err }

// Await is the failure.
func (q failed) Await(context.Context, uint64) error { return q.err }

// never is a queue whose operations do not end.
type never struct{}

// Finished is false.
func (never) Finished(uint64) bool { return false }

// Err is nil: nothing has ended.
func (never) Err(uint64) error { return nil }

// Await waits for the end of ctx.
func (never) Await(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}
