package executor_test

import (
	"context"
	"errors"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

var errBoom = errors.New("boom")

// fault says which operation of a set of devices fails: the nth of a kind, when
// it is queued or (late) when it runs.
type fault struct {
	kind string // alloc, copy-in, copy-out, peer or launch
	n    int
	late bool
	gate *gate  // opens before the operation runs
	err  error  // errBoom unless given; see also pass
	pass bool   // it does not fail, it only waits
	met  bool   // a copy-in is queued when it has failed, not before
	then func() // called besides, if there is one

	mu    sync.Mutex
	seen  int
	where string // the executable or tensor
	on    device.ID
}

// hit counts an operation and reports whether it is the one.
func (f *fault) hit(kind string, on device.ID, where string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if kind != f.kind {
		return false
	}
	if f.seen++; f.seen != f.n {
		return false
	}
	f.on, f.where = on, where
	return true
}

func (f *fault) fired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n > 0 && f.seen >= f.n
}

// next makes the next operation fail.
func (f *fault) next() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n = f.seen + 1
}

func (f *fault) cause() error {
	if f.err != nil {
		return f.err
	}
	return errBoom
}

// faulty is a device some of whose operations fail.
type faulty struct {
	device.Device
	faults []*fault
	lag    *gate // until it opens, nobody sees how copies to the device end
}

// withFaults wraps devices, whose operations are counted together.
func withFaults(devs []device.Device, faults ...*fault) []device.Device {
	out := make([]device.Device, len(devs))
	for i, d := range devs {
		out[i] = &faulty{Device: d, faults: faults}
	}
	return out
}

func (s *faultyStream) Alloc(m shape.Meta, use device.Usage) (device.Buffer, error) {
	for _, f := range s.dev.faults {
		if f.hit("alloc", s.dev.ID(), "") {
			return nil, f.cause()
		}
	}
	return s.Stream.Alloc(m, use)
}

func (d *faulty) NewStream(name string) (device.Stream, error) {
	s, err := d.Device.NewStream(name)
	return &faultyStream{s, d, name}, err
}

type faultyStream struct {
	device.Stream
	dev  *faulty
	name string
}

func (s *faultyStream) Record() device.Event {
	e := s.Stream.Record()
	if s.name == "copy-in" && s.dev.lag != nil {
		e.Queue = lagging{e.Queue, s.dev.lag}
	}
	return e
}

// meet makes an operation fail now, or the queue once it comes to it.
func (s *faultyStream) meet(kind, where string) error {
	for _, f := range s.dev.faults {
		if !f.hit(kind, s.dev.ID(), where) {
			continue
		}
		if f.then != nil {
			f.then()
		}
		if f.gate != nil {
			if err := s.WaitFor(device.Event{Queue: f.gate, Seq: 1}); err != nil {
				return err
			}
		}
		switch {
		case f.pass:
		case f.late:
			return s.WaitFor(device.Event{Queue: broken{f.cause()}, Seq: 1})
		default:
			return f.cause()
		}
	}
	return nil
}

func (s *faultyStream) CopyIn(dst device.Buffer, src device.HostBuffer) error {
	what := ""
	if device.Whole(src) != src {
		what = "batch"
	}
	if err := s.meet("copy-in", what); err != nil {
		return err
	}
	err := s.Stream.CopyIn(dst, src)
	for _, f := range s.dev.faults {
		if f.met && f.fired() {
			_ = s.Stream.Record().Wait(context.Background()) // it is the fault
		}
	}
	return err
}

func (s *faultyStream) CopyOut(dst device.HostBuffer, src device.Buffer) (device.Event, error) {
	if err := s.meet("copy-out", ""); err != nil {
		return device.Event{}, err
	}
	return s.Stream.CopyOut(dst, src)
}

func (s *faultyStream) CopyPeer(dst, src device.Buffer) error {
	if err := s.meet("peer", ""); err != nil {
		return err
	}
	return s.Stream.CopyPeer(dst, src)
}

func (s *faultyStream) Launch(x device.Executable, in, out []device.Buffer, scratch device.Buffer) (device.Event, error) {
	if err := s.meet("launch", x.Graph().Name); err != nil {
		return device.Event{}, err
	}
	return s.Stream.Launch(x, in, out, scratch)
}

// broken is a queue whose operations have failed.
type broken struct{ err error }

func (b broken) Finished(uint64) bool { return true }

func (b broken) Err(uint64) error { return b.err }

func (b broken) Await(context.Context, uint64) error { return b.err }

// gate is a queue whose operations end when it is opened.
type gate struct{ opened chan struct{} }

func newGate() *gate { return &gate{make(chan struct{})} }

func (g *gate) open() { close(g.opened) }

func (g *gate) Finished(uint64) bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

func (g *gate) Err(uint64) error { return nil }

func (g *gate) Await(ctx context.Context, _ uint64) error {
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lagging is a queue whose operations seem to go on until a gate is opened.
type lagging struct {
	device.Queue
	gate *gate
}

func (l lagging) Finished(seq uint64) bool { return l.gate.Finished(seq) && l.Queue.Finished(seq) }

func (l lagging) Err(seq uint64) error {
	if !l.Finished(seq) {
		return nil
	}
	return l.Queue.Err(seq)
}

func (l lagging) Await(ctx context.Context, seq uint64) error {
	if err := l.gate.Await(ctx, seq); err != nil {
		return err
	}
	return l.Queue.Await(ctx, seq)
}
