package hostmem

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

// host is a device that only allocates host memory.
type host struct {
	device.Device
	live int // buffers
}

func (d *host) AllocHost(bytes int64) (device.HostBuffer, error) {
	d.live++
	return &buffer{d, make([]byte, bytes)}, nil
}

type buffer struct {
	d *host
	b []byte
}

func (b *buffer) Bytes() []byte { return b.b }

func (b *buffer) Free() error {
	b.d.live--
	return nil
}

// queue is a queue whose operations end when the test says so.
type queue struct {
	done bool
	err  error
}

func (q *queue) Finished(uint64) bool { return q.done }

func (q *queue) Err(uint64) error { return q.err }

func (q *queue) Await(context.Context, uint64) error { return q.err }

func (q *queue) event() device.Event { return device.Event{Queue: q, Seq: 1} }

func (q *queue) end(err error) { q.done, q.err = true, err }

// alloc allocates a block that must fit.
func alloc(t *testing.T, x *Memory, d *host, bytes int64) *Block {
	t.Helper()
	h, err := x.Alloc(d, bytes, "w")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A dropped block is freed once its copies have ended and nobody pins it.
func TestDroppedBlocksAreFreedAfterTheirLastUse(t *testing.T) {
	d, q, x := new(host), new(queue), New(Options{})
	h := alloc(t, x, d, 8)
	h.AddUse(q.event())
	h.Pin()
	x.Drop(h)
	x.Sweep()
	x.Unpin(h)
	if d.live != 1 {
		t.Error("freed while a copy is queued")
	}
	q.end(errors.New("boom"))
	x.Sweep()
	if d.live != 0 {
		t.Error("not freed after the copy")
	}
	if u := x.Usage(); u.Used != 0 || u.Peak != 8 {
		t.Errorf("%+v", u)
	}
}

// A block whose last copy failed on its way to a device goes back to its owner, if
// that wants it. The block that it replaces is freed then.
func TestMovedBlocksComeBackAfterAFailure(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		d, q, x := new(host), new(queue), New(Options{Staging: 8})
		h, other := alloc(t, x, d, 8), alloc(t, x, d, 8)
		h.AddUse(q.event())
		x.Move(h, q.event(), func() (*Block, bool) {
			if wanted {
				return other, true
			}
			return nil, false
		})
		x.Drop(h)
		if len(x.Blockers(1)) != 1 {
			t.Error("nothing to wait for while all that may be staged is")
		}
		q.end(errors.New("boom"))
		if len(x.Blockers(8)) != 0 {
			t.Error("still staged after the copy")
		}
		x.Sweep()
		if d.live != 1 || x.Usage().Used != 8 || other.buf == nil != wanted {
			t.Errorf("wanted %v: %d buffers", wanted, d.live)
		}
	}
}

// Beyond the bound, blocks that are kept for copies out are freed first. Without a file,
// the rest is refused.
func TestBound(t *testing.T) {
	d, x := new(host), New(Options{Bound: 16})
	spill, err := x.AllocOut(d, 8, "w")
	if err != nil {
		t.Fatal(err)
	}
	x.Drop(spill)
	if u := x.Usage(); u.Idle != 8 {
		t.Errorf("%+v: the block of a copy out is kept", u)
	}
	h := alloc(t, x, d, 16)
	if u := x.Usage(); u.Idle != 0 || u.Used != 16 {
		t.Errorf("%+v", u)
	}
	if _, err := x.Alloc(d, 1, "v"); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	x.Drop(h)
	if err := x.Hold(17); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
}

// The block of a copy out is given out again at once, an unused one first, and freed
// when it was not taken for long.
func TestBlocksOfSpillsAreReused(t *testing.T) {
	d, q, x := new(host), new(queue), New(Options{})
	busy, _ := x.AllocOut(d, 8, "w")
	busy.AddUse(q.event())
	free, _ := x.AllocOut(d, 8, "v")
	x.Drop(busy)
	x.Drop(free)
	for _, want := range []*Block{free, busy} {
		if h, err := x.AllocOut(d, 8, "u"); err != nil || h != want {
			t.Errorf("got %p, %v, expected %p", h, err, want)
		}
	}
	x.Drop(free)
	x.Tick(LeastKept)
	if u := x.Usage(); u.Idle != 8 {
		t.Errorf("%+v: freed too soon", u)
	}
	x.Tick(LeastKept + 1)
	if u := x.Usage(); u.Idle != 0 {
		t.Errorf("%+v: still there", u)
	}
}

// Close frees dropped blocks, and pinned ones once they are unpinned.
func TestClose(t *testing.T) {
	d, x := new(host), New(Options{})
	a, b := alloc(t, x, d, 8), alloc(t, x, d, 8)
	b.Pin()
	x.Drop(a)
	x.Drop(b)
	if err := x.Close(); err != nil || d.live != 1 {
		t.Errorf("%v, %d buffers", err, d.live)
	}
	x.Unpin(b)
	if d.live != 0 {
		t.Error("the pinned block was not freed")
	}
}

// Blocks leave the memory free that is to be held later.
func TestKeepFree(t *testing.T) {
	d, x := new(host), New(Options{Bound: 16})
	x.KeepFree(8)
	if _, err := x.Alloc(d, 9, "v"); !errors.Is(err, ErrFull) {
		t.Errorf("a block took the memory kept free: %v", err)
	}
	h := alloc(t, x, d, 8)
	for range 2 {
		if err := x.Hold(8); err != nil {
			t.Fatal(err)
		}
		x.Release(8)
	}
	if u := x.Usage(); u.Peak > 16 {
		t.Errorf("%+v", u)
	}
	x.Drop(h)
}
