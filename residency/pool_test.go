package residency

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

func (r *rig) drop(ts ...*Tensor) {
	r.Helper()
	for _, t := range ts {
		if err := r.m.Drop(t); err != nil {
			r.Fatal(err)
		}
	}
}

// allocs is how many buffers a device was asked for since the last call.
func (r *rig) allocs(d int) int64 {
	f := r.devs[d]
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.allocs
	f.allocs = 0
	return n
}

// addStream opens one more compute stream on device d.
func (r *rig) addStream(d int) device.Stream {
	r.Helper()
	s, err := r.devs[d].NewStream("second")
	if err != nil {
		r.Fatal(err)
	}
	r.compute = append(r.compute, s)
	return s
}

// on runs f with device d's tasks going to stream s.
func (r *rig) on(d int, s device.Stream, f func()) {
	old := r.compute[d]
	r.compute[d] = s
	f()
	r.compute[d] = old
}

// TestPoolHandsOn: equal metadata and usage takes the buffer at once, on the
// same stream without any wait; anything else does not get it.
func TestPoolHandsOn(t *testing.T) {
	r := newRig(t, 2, ManagerOptions{})
	a, b := r.declare("a", 8, device.Activation), r.declare("b", 8, device.Activation)
	free := r.compute[0].(*fakeStream).hold()
	r.write(a, 0, 'a')
	r.drop(a)
	if mem := r.m.Memory(0); mem.Used != 0 || mem.Pooled != 8 || mem.Pending != 0 {
		t.Errorf("after the drop memory is %+v", mem)
	}
	r.allocs(0)
	queued := r.compute[0].Record().Seq
	r.write(b, 0, 'b')
	if n := r.allocs(0); n != 0 {
		t.Errorf("%d allocations", n)
	}
	if n := r.compute[0].Record().Seq - queued; n != 1 {
		t.Errorf("%d operations were queued for one task: it waited for its own stream", n)
	}
	r.drop(b)
	for _, x := range []struct {
		d int
		t *Tensor
	}{{0, r.declare("grad", 8, device.Grad)}, {0, r.declare("long", 9, device.Activation)}, {1, a}} {
		r.write(x.t, x.d, 'c')
		if n := r.allocs(x.d); n != 1 {
			t.Errorf("%v on device %d took another's buffer", x.t, x.d)
		}
	}
	free()
}

// TestPoolOrdersByEvents: who takes a buffer waits for its old uses in its
// stream, not on the host.
func TestPoolOrdersByEvents(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	a, b := r.declare("a", 8, device.Activation), r.declare("b", 8, device.Activation)
	second := r.addStream(0)
	free := r.compute[0].(*fakeStream).hold()
	r.write(a, 0, 'a')
	r.mustRead(a, 0, 'a')
	r.drop(a)
	r.allocs(0)
	r.on(0, second, func() { r.write(b, 0, 'b') })
	if n := r.allocs(0); n != 0 || second.Record().Done() {
		t.Errorf("%d allocations; the new writer went ahead: %v", n, second.Record().Done())
	}
	free()
	r.on(0, second, func() { r.mustRead(b, 0, 'b') })
}

// TestPoolPrefersWhatIsFree: a task gets a buffer that it need not wait for.
func TestPoolPrefersWhatIsFree(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	a, b, c := r.declare("a", 8, device.Grad), r.declare("b", 8, device.Grad), r.declare("c", 8, device.Grad)
	second := r.addStream(0)
	free := r.compute[0].(*fakeStream).hold()
	freeSecond := second.(*fakeStream).hold()
	for _, ended := range []bool{false, true} {
		r.on(0, second, func() { r.write(a, 0, 'a') })
		r.write(b, 0, 'b')
		if ended {
			if err := second.Record().Wait(short(t)); err != nil {
				t.Fatal(err)
			}
		}
		r.drop(b, a)
		r.on(0, second, func() { r.write(c, 0, 'c') })
		freeSecond()
		if err := second.Record().Wait(short(t)); err != nil {
			t.Fatalf("ended %v: it waited for another stream: %v", ended, err)
		}
		r.drop(c)
	}
	if n := r.allocs(0); n != 2 {
		t.Errorf("%d allocations for two tensors at once", n)
	}
	free()
}

// TestPoolKeptThroughWaits: an attempt keeps the buffers that it took from the pool
// while it waits for something else.
func TestPoolKeptThroughWaits(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	a, b, w := r.declare("a", 8, device.Grad), r.declare("b", 8, device.Grad), r.declare("w", 8, device.Weight)
	if err := r.m.FromStore(w, &shelf{reads: map[string]int{}}, "w"); err != nil {
		t.Fatal(err)
	}
	free := r.compute[0].(*fakeStream).hold()
	r.write(a, 0, 'a')
	r.drop(a)
	r.kinds()
	if err := r.task(0, func([][]byte) error { return nil }, Need{b, 0, Write}, Need{w, 0, Read}); err != nil {
		t.Fatal(err)
	}
	if got := r.kinds(); got != "stream-in w store>fake:0" {
		t.Errorf("moved %q", got)
	}
	free()
}

// TestPoolSparesCopies: a copy does not wait for a task, unless there is no
// other memory; then its stream does, and not the host.
func TestPoolSparesCopies(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget int64
		change func(int, *fakeDev)
	}{
		{"room", 16, nil},
		{"budget", 8, nil},
		{"device", 0, func(_ int, d *fakeDev) { d.capacity = 8 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			change := c.change
			if change == nil {
				change = func(int, *fakeDev) {}
			}
			r := newRig(t, 1, ManagerOptions{Budgets: []int64{c.budget}}, change)
			x := r.declare("x", 8, device.Input)
			free := r.compute[0].(*fakeStream).hold()
			for i, b := range []byte("ab") {
				if err := r.m.Feed(x, r.hostBuffer(8, b)); err != nil {
					t.Fatal(err)
				}
				if err := r.m.Prefetch(short(t), []Need{{x, 0, Read}}); err != nil {
					t.Fatal(err)
				}
				if _, ok := r.m.FeedDone(x); ok != (i == 0 || c.name == "room") {
					t.Errorf("prefetched: %v", ok)
				}
				r.mustRead(x, 0, b)
				r.drop(x)
			}
			want := int64(1)
			if c.name == "room" {
				want = 2
			}
			if n := r.allocs(0); n != want {
				t.Errorf("%d allocations, want %d", n, want)
			}
			in := r.devs[0].stream("copy-in").Record()
			if c.name == "room" {
				if err := in.Wait(short(t)); err != nil {
					t.Error(err)
				}
			} else if in.Done() {
				t.Error("the copy did not wait for the task that reads the buffer")
			}
			free()
			if err := r.compute[0].Record().Wait(short(t)); err != nil {
				t.Error(err)
			}
			if mem := r.m.Memory(0); mem.Pooled != 8*want {
				t.Errorf("memory is %+v: as many buffers were to stay as were in use at once", mem)
			}
		})
	}
}

// TestPoolGivesWayFirst: pooled buffers go before anything is evicted, the one
// pooled longest ago first.
func TestPoolGivesWayFirst(t *testing.T) {
	for _, limit := range []string{"budget", "device"} {
		t.Run(limit, func(t *testing.T) {
			o, change := ManagerOptions{Budgets: []int64{32}}, func(int, *fakeDev) {}
			if limit == "device" {
				o, change = ManagerOptions{}, func(_ int, d *fakeDev) { d.capacity = 32 }
			}
			r := newRig(t, 1, o, change)
			w := r.declare("w", 8, device.Weight)
			r.write(w, 0, 'w')
			a, b, c := r.declare("a", 6, device.Activation), r.declare("b", 7, device.Activation), r.declare("c", 11, device.Activation)
			for _, x := range []*Tensor{a, b, c} {
				r.write(x, 0, 'x')
			}
			r.drop(b, a, c)
			if err := r.compute[0].Record().Wait(short(t)); err != nil {
				t.Fatal(err)
			}
			r.kinds()
			g := r.declare("g", 13, device.Grad)
			r.write(g, 0, 'g')
			if got := r.kinds(); got != "" {
				t.Errorf("moved %q", got)
			}
			if mem := r.m.Memory(0); mem.Used != 21 || mem.Pooled != 11 {
				t.Errorf("memory is %+v: b and a were to go, c to stay", mem)
			}
			r.allocs(0)
			r.write(c, 0, 'c')
			if n := r.allocs(0); n != 0 {
				t.Error("c's buffer was deleted")
			}
			r.mustRead(w, 0, 'w')
			r.drop(c)
			x := r.declare("x", 7, device.Input)
			if err := r.m.Feed(x, r.hostBuffer(7, 'x')); err != nil {
				t.Fatal(err)
			}
			if err := r.compute[0].Record().Wait(short(t)); err != nil {
				t.Fatal(err)
			}
			if err := r.m.Prefetch(short(t), []Need{{x, 0, Read}}); err != nil {
				t.Fatal(err)
			}
			if _, ok := r.m.FeedDone(x); !ok || r.m.Memory(0).Used != 28 {
				t.Errorf("not prefetched in place of c, memory is %+v", r.m.Memory(0))
			}
		})
	}
}

// TestPoolForgets: buffers that are not taken are deleted.
func TestPoolForgets(t *testing.T) {
	t.Run("marks", func(t *testing.T) {
		r := newRig(t, 1, ManagerOptions{})
		a, b := r.declare("a", 8, device.Grad), r.declare("b", 16, device.Grad)
		r.write(a, 0, 'a')
		r.write(b, 0, 'b')
		r.drop(a, b)
		for range keepTicks - 1 {
			r.write(a, 0, 'a')
			r.drop(a)
			r.m.Ledger().Step()
		}
		if mem := r.m.Memory(0); mem.Pooled != 24 {
			t.Errorf("too early, memory is %+v", mem)
		}
		r.write(a, 0, 'a')
		r.drop(a)
		r.m.Ledger().Boundary()
		r.write(a, 0, 'a')
		if got := r.m.devs[0].pool.bytes; got != 0 {
			t.Errorf("too late, %d bytes are pooled", got)
		}
		r.drop(a)
		for range keepTicks {
			r.m.Ledger().Step()
		}
		if mem := r.m.Memory(0); mem.Pooled != 0 {
			t.Errorf("no task came by, memory is %+v", mem)
		}
		if n := r.allocs(0); n != 2 {
			t.Errorf("%d allocations for two tensors", n)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		r := newRig(t, 1, ManagerOptions{})
		for n := 8; n < 16; n++ {
			x := r.declare(string(rune('a'+n)), n, device.Grad)
			r.write(x, 0, 'x')
			r.drop(x)
			if err := r.compute[0].Record().Wait(short(t)); err != nil {
				t.Fatal(err)
			}
		}
		if mem := r.m.Memory(0); mem.Pooled != 15 {
			t.Errorf("memory is %+v, want no more than the largest tensor there was at once", mem)
		}
	})
	t.Run("trim", func(t *testing.T) {
		r := newRig(t, 1, ManagerOptions{})
		a := r.declare("a", 8, device.Grad)
		free := r.compute[0].(*fakeStream).hold()
		r.write(a, 0, 'a')
		r.drop(a)
		r.m.Trim()
		if mem := r.m.Memory(0); mem.Pooled != 0 || mem.Pending != 8 {
			t.Errorf("memory is %+v", mem)
		}
		free()
		if err := r.compute[0].Record().Wait(short(t)); err != nil {
			t.Fatal(err)
		}
		if live := r.devs[0].Stats().Live; live != 0 || r.m.Memory(0).Pending != 0 {
			t.Errorf("%d bytes live, memory is %+v", live, r.m.Memory(0))
		}
	})
}

// TestPoolAfterFailedAcquire: buffers that a failed attempt took go back to the
// pool, with the uses that have not ended.
func TestPoolAfterFailedAcquire(t *testing.T) {
	r := newRig(t, 1, ManagerOptions{})
	a, b := r.declare("a", 8, device.Grad), r.declare("b", 8, device.Grad)
	never := r.declare("never", 4, device.Grad)
	second := r.addStream(0)
	free := r.compute[0].(*fakeStream).hold()
	r.write(a, 0, 'a')
	r.drop(a)
	needs := []Need{{b, 0, Write}, {never, 0, Read}}
	if err := r.m.Acquire(context.Background(), second, needs, new(Lease)); !errors.Is(err, ErrUndefined) {
		t.Fatalf("error is %v", err)
	}
	var l Lease
	if err := r.m.Acquire(context.Background(), second, needs[:1], &l); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Abandon(&l); err != nil {
		t.Fatal(err)
	}
	third := r.addStream(0)
	r.on(0, third, func() { r.write(b, 0, 'b') })
	if n := r.allocs(0); n != 1 || third.Record().Done() {
		t.Errorf("%d allocations; the new writer went ahead: %v", n, third.Record().Done())
	}
	free()
	r.on(0, third, func() { r.mustRead(b, 0, 'b') })
}
