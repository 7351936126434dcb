package copies_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/copies"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// rig is a queue on a device whose copies to the host can fail.
type rig struct {
	*testing.T
	dev  device.Device
	q    *copies.Queue
	main device.Stream

	mu      sync.Mutex
	fails   []fail
	streams []device.Stream // that have copied to the host
	copies  []int           // by each
	failed  int             // of fails, those that have come
}

// fail is a copy that fails: the first of a stream has number 1, and of copies on it.
type fail struct {
	stream, copy int
	err          error
}

// newRig opens a queue. At the end of the test all must be freed.
func newRig(t *testing.T, fails ...fail) *rig {
	t.Helper()
	r := &rig{T: t, fails: fails}
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 20})
	r.ok(err)
	r.dev = fault.Intercept(devs, r.meet)[0]
	r.main, err = r.dev.NewStream("main")
	r.ok(err)
	r.q, err = copies.Open(r.dev, "copy-out")
	r.ok(err)
	t.Cleanup(func() {
		r.ok(r.q.Close())
		r.ok(r.main.Close())
		r.ok(r.dev.Close())
	})
	return r
}

// meet lets a copy to the host fail if its turn has come.
func (r *rig) meet(o fault.Operation) fault.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Op != fault.CopyOut && o.Op != fault.Repeat {
		return fault.Outcome{}
	}
	i := slices.Index(r.streams, o.Stream)
	if i < 0 {
		i = len(r.streams)
		r.streams, r.copies = append(r.streams, o.Stream), append(r.copies, 0)
	}
	r.copies[i]++
	for _, f := range r.fails {
		if f.stream == i+1 && f.copy == r.copies[i] {
			r.failed++
			return fault.Outcome{After: fault.Fails(f.err)}
		}
	}
	return fault.Outcome{}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

// buffer is device memory with a number.
func (r *rig) buffer(x float32) device.Buffer {
	r.Helper()
	b, err := r.main.Alloc(shape.F32(1), device.Weight)
	r.ok(err)
	h, err := r.dev.AllocHost(4)
	r.ok(err)
	shape.View[float32](h.Bytes())[0] = x
	r.ok(r.main.CopyIn(b, h))
	r.ok(r.main.Record().Wait(r.Context()))
	r.ok(h.Free())
	return b
}

// copied is a copy of a number.
type copied struct {
	to   device.HostBuffer
	done device.Event
}

// copy queues a copy after an event.
func (r *rig) copy(b device.Buffer, after device.Event) copied {
	r.Helper()
	_, err := r.q.Stream()
	r.ok(err)
	h, err := r.dev.AllocHost(4)
	r.ok(err)
	r.Cleanup(func() { r.ok(h.Free()) })
	clear(h.Bytes())
	done, err := r.q.CopyOut(h, b, device.Fence{after})
	r.ok(err)
	return copied{h, done}
}

func (c copied) value() float32 { return shape.View[float32](c.to.Bytes())[0] }

// A copy that fails is repeated, and so are those behind it, when someone waits for any
// of them. They do not count as ended before, and their source was freed meanwhile.
func TestFailedCopiesAreRepeated(t *testing.T) {
	for _, fails := range [][]fail{{{1, 1, errBoom}}, {{1, 2, errBoom}, {2, 2, errBoom}}, {{1, 1, errBoom}, {2, 1, errBoom}}, {{1, 4, errBoom}}} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			r := newRig(t, fails...)
			gate := make(gated)
			var list []copied
			for i := range 4 {
				b := r.buffer(float32(i + 1))
				list = append(list, r.copy(b, gate.event()))
				r.ok(b.Free(list[i].done))
			}
			close(gate)
			s, err := r.dev.NewStream("taker")
			r.ok(err)
			b, err := s.Alloc(shape.F32(4), device.Weight) // it may be the memory of all
			r.ok(err)
			for _, c := range list {
				r.ok(s.WaitForEnd(c.done))
			}
			r.ok(s.Record().Wait(t.Context()))
			for i, c := range list {
				if !c.done.Done() || c.done.Err() != nil || c.value() != float32(i+1) {
					t.Errorf("copy %d: %v, %v, %v", i, c.done.Done(), c.done.Err(), c.value())
				}
			}
			if list := r.q.Failures(); len(list) != r.failed { // the second one may not come: a copy can be repeated before the next has failed
				t.Errorf("it tells %v, of %d", list, r.failed)
			}
			if list := r.q.Failures(); list != nil {
				t.Errorf("it tells again: %v", list)
			}
			r.ok(b.Free())
			r.ok(s.Close())
		})
	}
}

// Three failures in a row are one for good, and a lost device is one at once. Those that
// were followed by a repeat are told.
func TestFailureForGood(t *testing.T) {
	lost := fmt.Errorf("%w: %w", errBoom, device.ErrLost)
	for _, c := range []struct {
		fails []fail
		told  int
	}{
		{[]fail{{1, 2, errBoom}, {2, 1, errBoom}, {3, 1, errBoom}}, 2},
		{[]fail{{1, 2, lost}}, 0},
		{[]fail{{1, 2, errBoom}, {2, 1, lost}}, 1},
	} {
		r := newRig(t, c.fails...)
		b := r.buffer(1)
		gate := make(gated)
		well, failed, behind := r.copy(b, gate.event()), r.copy(b, device.Event{}), r.copy(b, device.Event{})
		close(gate)
		for range 2 {
			if err := failed.done.Wait(t.Context()); !errors.Is(err, errBoom) {
				t.Errorf("%v: %v", c.fails, err)
			}
		}
		if err := behind.done.Wait(t.Context()); !errors.Is(err, errBoom) {
			t.Errorf("%v: the copy behind: %v", c.fails, err)
		}
		if err := well.done.Wait(t.Context()); err != nil || well.value() != 1 {
			t.Errorf("%v: the copy before: %v", c.fails, err)
		}
		if told := r.q.Failures(); len(told) != c.told {
			t.Errorf("%v: it tells %v", c.fails, told)
		}
		r.ok(b.Free())
	}
}

// Waiting ends with its context, and a copy can wait for others of its queue that fail.
func TestCopiesWaitForOthersOfTheirQueue(t *testing.T) {
	r := newRig(t, fail{1, 1, errBoom}, fail{1, 4, errBoom}, fail{2, 2, errBoom})
	b := r.buffer(7)
	gate := make(gated)
	first := r.copy(b, gate.event())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := first.done.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting without end: %v", err)
	}
	last := first
	for range 5 {
		last = r.copy(b, last.done)
	}
	close(gate)
	r.ok(last.done.Wait(t.Context()))
	if first.value() != 7 || last.value() != 7 {
		t.Errorf("copied %v and %v", first.value(), last.value())
	}
	r.ok(b.Free(last.done))
}

// gated is a queue that ends when a channel is closed.
type gated chan struct{}

func (g gated) event() device.Event { return device.Event{Queue: g, Seq: 1} }

func (g gated) Finished(uint64) bool {
	select {
	case <-g:
		return true
	default:
		return false
	}
}

func (gated) Err(uint64) error { return nil }

func (g gated) Await(ctx context.Context, _ uint64) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Many wait at once while copies fail again and again, never three times in a row.
func TestManyWaiters(t *testing.T) {
	const copies = 200
	random := rand.New(rand.NewPCG(1, 2))
	var fails []fail
	for i := range copies {
		fails = append(fails, fail{i + 1, 2 + random.IntN(3), errBoom}) // a copy ends well before
	}
	r := newRig(t, fails...)
	b := r.buffer(3)
	var waiting sync.WaitGroup
	for range copies {
		c := r.copy(b, device.Event{})
		waiting.Go(func() {
			r.ok(c.done.Wait(r.Context()))
			if c.value() != 3 || !c.done.Done() {
				r.Errorf("copied %v", c.value())
			}
		})
	}
	waiting.Wait()
	r.ok(b.Free())
}

// A copy that ends well allocates nothing.
func TestSteadyState(t *testing.T) {
	r := newRig(t)
	b := r.buffer(1)
	h, err := r.dev.AllocHost(4)
	r.ok(err)
	after := device.Fence{}
	step := func() {
		for range 8 {
			done, err := r.q.CopyOut(h, b, after)
			r.ok(err)
			after = append(after[:0], done)
		}
		r.ok(after[0].Wait(t.Context()))
	}
	step()
	if n := testing.AllocsPerRun(100, step); n > 0 {
		t.Errorf("%v allocations", n)
	}
	r.ok(h.Free())
	r.ok(b.Free())
}
