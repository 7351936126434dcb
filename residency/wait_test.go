package residency

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// stream opens another compute stream.
func (r *rig) stream(d int) device.Stream {
	r.Helper()
	s, err := r.devs[d].NewStream("compute")
	if err != nil {
		r.Fatal(err)
	}
	r.compute = append(r.compute, s)
	return s
}

// call is a call that may block. err has its result.
type call struct {
	lease Lease
	err   chan error
}

// acquire acquires in a goroutine.
func (r *rig) acquire(ctx context.Context, s device.Stream, needs ...Need) *call {
	c := &call{err: make(chan error, 1)}
	go func() { c.err <- r.m.Acquire(ctx, s, needs, 0, &c.lease) }()
	return c
}

// waits waits until n calls are in the line. It reports whether c ended instead.
func (r *rig) waits(n int, c *call) (ended bool) {
	r.Helper()
	for range 10000 {
		r.m.mu.Lock()
		waiting := r.m.line.Len()
		r.m.mu.Unlock()
		switch {
		case len(c.err) > 0:
			return true
		case waiting == n:
			return false
		}
		time.Sleep(time.Millisecond)
	}
	r.Fatalf("%d calls never waited", n)
	return false
}

// served waits for a call to succeed, and releases its lease.
func (r *rig) served(c *call) {
	r.Helper()
	select {
	case err := <-c.err:
		if err != nil {
			r.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		r.Fatal("a call was never served")
	}
	if c.lease.held {
		if err := r.m.Release(&c.lease, device.Event{}); err != nil {
			r.Fatal(err)
		}
	}
}

// A call that must wait for a lease goes before all later ones that are in its way,
// however many come.
func TestFirstComeFirstServed(t *testing.T) {
	for name, c := range map[string]struct {
		held, later func(w, big *Tensor) Need
		first       func(r *rig, w, big *Tensor) *call
	}{
		"a writer among readers": {
			held:  func(w, _ *Tensor) Need { return Need{w, 0, Read} },
			first: func(r *rig, w, _ *Tensor) *call { return r.acquire(short(t), r.compute[0], Need{w, 0, ReadWrite}) },
			later: func(w, _ *Tensor) Need { return Need{w, 0, Read} },
		},
		"a reader elsewhere among writers": {
			held:  func(w, _ *Tensor) Need { return Need{w, 0, ReadWrite} },
			first: func(r *rig, w, _ *Tensor) *call { return r.acquire(short(t), r.compute[1], Need{w, 1, Read}) },
			later: func(w, _ *Tensor) Need { return Need{w, 0, ReadWrite} },
		},
		"a large task among small ones": {
			held:  func(w, _ *Tensor) Need { return Need{w, 0, Read} },
			first: func(r *rig, _, big *Tensor) *call { return r.acquire(short(t), r.compute[0], Need{big, 0, Write}) },
			later: func(w, _ *Tensor) Need { return Need{w, 0, Read} },
		},
		"a pull-back among writers": {
			held: func(w, _ *Tensor) Need { return Need{w, 0, ReadWrite} },
			first: func(r *rig, w, _ *Tensor) *call {
				c := &call{err: make(chan error, 1)}
				go func() { c.err <- r.m.PullBack(short(t), ledger.Fetch, w) }()
				return c
			},
			later: func(w, _ *Tensor) Need { return Need{w, 0, ReadWrite} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2, rigOptions{}, capacity(16, 16))
			w, big := r.declare("w", 8, device.Weight), r.declare("big", 16, device.Weight)
			r.write(w, 0, 'a')
			now := r.acquire(short(t), r.stream(0), c.held(w, big))
			if !r.waits(-1, now) {
				t.Fatal("the first lease is not there")
			}
			first := c.first(r, w, big)
			if r.waits(1, first) {
				t.Fatalf("it did not wait: %v", <-first.err)
			}
			later := r.acquire(short(t), r.stream(0), c.later(w, big))
			if r.waits(2, later) {
				t.Fatal("a later call went first")
			}
			r.served(now)
			r.served(first)
			r.served(later)
		})
	}
}

// A call waits behind those alone that use one of its devices or tensors.
func TestNobodyWaitsForOtherDevices(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, capacity(16, 16))
	w, other := r.declare("w", 8, device.Weight), r.declare("other", 8, device.Weight)
	r.write(w, 0, 'a')
	r.write(other, 1, 'b')
	now := r.acquire(short(t), r.stream(0), Need{w, 0, Read})
	r.waits(-1, now)
	writer := r.acquire(short(t), r.compute[0], Need{w, 0, Write})
	r.waits(1, writer)
	r.mustRead(other, 1, 'b')
	reader := r.acquire(short(t), r.compute[1], Need{w, 1, Read})
	r.waits(2, reader) // for the tensor
	r.served(now)
	r.served(writer)
	r.served(reader)
}

// A call whose context ends leaves the line, and those behind it move on.
func TestWaitingEndsWithItsContext(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'a')
	now := r.acquire(short(t), r.stream(0), Need{w, 0, Read})
	r.waits(-1, now)
	ctx, cancel := context.WithCancel(t.Context())
	writer := r.acquire(ctx, r.stream(0), Need{w, 0, Write})
	r.waits(1, writer)
	reader := r.acquire(short(t), r.stream(0), Need{w, 0, Read})
	r.waits(2, reader)
	cancel()
	if err := <-writer.err; !errors.Is(err, context.Canceled) {
		t.Errorf("the writer: %v", err)
	}
	r.served(reader)
	r.served(now)
	r.mustRead(w, 0, 'a')
}

// A call whose stream has a lease goes first: others may wait for that lease.
func TestHolderOfALeaseGoesFirst(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(16))
	w, x, big := r.declare("w", 8, device.Weight), r.declare("x", 8, device.Weight), r.declare("big", 16, device.Weight)
	s := r.stream(0)
	now := r.acquire(short(t), s, Need{w, 0, Write})
	r.waits(-1, now)
	waiting := r.acquire(short(t), r.stream(0), Need{big, 0, Write})
	r.waits(1, waiting)
	r.served(r.acquire(short(t), s, Need{x, 0, Write}))
	r.served(now)
	r.served(waiting)
}

// Close ends all waits.
func TestCloseEndsWaits(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'a')
	now := r.acquire(short(t), r.stream(0), Need{w, 0, Read})
	r.waits(-1, now)
	var waiting []*call
	for i := range 3 {
		waiting = append(waiting, r.acquire(short(t), r.stream(0), Need{w, 0, Write}))
		r.waits(i+1, waiting[i])
	}
	if err := r.m.Close(); !errors.Is(err, ErrLeased) {
		t.Errorf("close: %v", err)
	}
	for i, c := range waiting {
		if err := <-c.err; !errors.Is(err, ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
