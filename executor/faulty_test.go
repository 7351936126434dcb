package executor_test

import (
	"context"
	"errors"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
)

var errBoom = errors.New("boom")

// fault says which operation of a set of devices fails: the nth of a kind, when
// it is queued or (late) when it runs. A copy that fails when it runs fails again
// whenever it is repeated.
type fault struct {
	op   faults.Op
	n    int
	late bool
	gate *gate  // opens before the operation runs
	err  error  // errBoom unless given; see also pass
	pass bool   // it does not fail, it only waits
	met  bool   // no operation is asked for before this one has failed
	then func() // called too, if there is one

	mu    sync.Mutex
	seen  int
	where string // the executable, or "batch" for a copy of a part of one
	on    device.ID
	queue device.Stream // the operation's
}

// hit counts an operation and reports whether it is the one.
func (f *fault) hit(o faults.Operation) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.Op == faults.Repeat && f.late && f.n > 0 && f.seen >= f.n {
		return true
	}
	if o.Op != f.op {
		return false
	}
	if f.seen++; f.seen != f.n {
		return false
	}
	f.on, f.where, f.queue = o.Device, o.What, o.Stream
	if o.Op == faults.CopyIn && device.Whole(o.Host) != o.Host {
		f.where = "batch"
	}
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

// await waits until the operation has failed.
func (f *fault) await() {
	if f.met && f.fired() {
		_ = f.queue.Record().Wait(context.Background()) // it is the fault
	}
}

// outcome is what the operation meets.
func (f *fault) outcome() faults.Outcome {
	err := f.err
	switch {
	case f.pass:
		err = nil
	case err == nil:
		err = errBoom
	}
	if f.then != nil {
		f.then()
	}
	switch {
	case f.gate != nil:
		return faults.Outcome{After: device.Event{Queue: gated{f.gate, err}, Seq: 1}}
	case err == nil:
		return faults.Outcome{}
	case f.late:
		return faults.Outcome{After: faults.Fails(err)}
	}
	return faults.Outcome{Refused: err}
}

// withFaults wraps devices, whose operations are counted together.
func withFaults(devs []device.Device, list ...*fault) []device.Device {
	return faults.Intercept(devs, func(o faults.Operation) faults.Outcome {
		for _, f := range list {
			f.await()
		}
		for _, f := range list {
			if f.hit(o) {
				return f.outcome()
			}
		}
		return faults.Outcome{}
	})
}

// gate is opened once.
type gate struct {
	opened  chan struct{}
	reached chan struct{} // has a value once something waits
}

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{}, 1)} }

func (g *gate) open() { close(g.opened) }

// wait waits until the gate is open.
func (g *gate) wait() {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.opened
}

func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

// gated is a queue whose operations end when a gate is opened, with an error unless
// it is nil.
type gated struct {
	*gate
	err error
}

func (g gated) Finished(uint64) bool { return g.isOpen() }

func (g gated) Err(uint64) error {
	if !g.isOpen() {
		return nil
	}
	return g.err
}

func (g gated) Await(ctx context.Context, _ uint64) error {
	select {
	case <-g.opened:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
