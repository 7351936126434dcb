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

// TestReuseInAStream: a task gets the memory that an earlier one of its stream
// still uses, without any wait.
func TestReuseInAStream(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(8))
	a, b := r.declare("a", 8, device.Activation), r.declare("b", 7, device.Grad)
	free := r.compute[0].(*fakeStream).hold()
	r.write(a, 0, 'a')
	r.drop(a)
	queued := r.compute[0].Record().Seq
	r.write(b, 0, 'b')
	if n := r.compute[0].Record().Seq - queued; n != 2 {
		t.Errorf("%d operations were queued for the poison and the task: it waited for its own stream", n)
	}
	r.drop(b)
	free()
}

// TestReuseOrdersByEvents: who takes memory waits for its old uses in its stream,
// not on the host.
func TestReuseOrdersByEvents(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(8))
	a, b := r.declare("a", 8, device.Activation), r.declare("b", 8, device.Activation)
	second := r.addStream(0)
	free := r.compute[0].(*fakeStream).hold()
	r.write(a, 0, 'a')
	r.mustRead(a, 0, 'a')
	r.drop(a)
	r.on(0, second, func() { r.write(b, 0, 'b') })
	if second.Record().Done() {
		t.Error("the new writer went ahead")
	}
	free()
	r.on(0, second, func() { r.mustRead(b, 0, 'b') })
}

// TestReusePrefersWhatIsFree: a task gets memory that it need not wait for.
func TestReusePrefersWhatIsFree(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(16))
	a, b, c := r.declare("a", 8, device.Grad), r.declare("b", 8, device.Grad), r.declare("c", 8, device.Grad)
	second := r.addStream(0)
	free := r.compute[0].(*fakeStream).hold()
	freeSecond := second.(*fakeStream).hold()
	for _, passed := range []bool{false, true} {
		r.on(0, second, func() { r.write(a, 0, 'a') })
		r.write(b, 0, 'b')
		if passed {
			e := second.Record()
			if err := e.Wait(short(t)); err != nil {
				t.Fatal(err)
			}
			r.m.Passed(e)
		}
		r.drop(b, a)
		r.on(0, second, func() { r.write(c, 0, 'c') })
		freeSecond()
		if err := second.Record().Wait(short(t)); err != nil {
			t.Fatalf("passed %v: it waited for another stream: %v", passed, err)
		}
		r.drop(c)
	}
	free()
}

// TestReuseSparesCopies: a copy does not wait for a task, unless there is no
// other memory; then its stream does, and not the host.
func TestReuseSparesCopies(t *testing.T) {
	for name, memory := range map[string]int64{"room": 16, "no room": 8} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, rigOptions{}, capacity(memory))
			x := r.declare("x", 8, device.Input)
			free := r.compute[0].(*fakeStream).hold()
			for _, b := range []byte("ab") {
				if err := r.m.Feed(x, r.hostBuffer(8, b)); err != nil {
					t.Fatal(err)
				}
				if err := r.m.Prefetch(short(t), []Need{{x, 0, Read}}); err != nil {
					t.Fatal(err)
				}
				if _, ok := r.m.FeedDone(x); !ok {
					t.Error("not prefetched")
				}
				r.mustRead(x, 0, b)
				r.drop(x)
			}
			in := r.devs[0].stream("copy-in").Record()
			if name == "room" {
				if err := in.Wait(short(t)); err != nil {
					t.Error(err)
				}
			} else if in.Done() {
				t.Error("the copy did not wait for the task that reads the memory")
			}
			free()
			if err := r.compute[0].Record().Wait(short(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReuseBeforeEviction: nothing is evicted while dropped memory is enough.
func TestReuseBeforeEviction(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(32))
	w := r.declare("w", 8, device.Weight)
	r.write(w, 0, 'w')
	a, b, c := r.declare("a", 6, device.Activation), r.declare("b", 7, device.Activation), r.declare("c", 11, device.Activation)
	for _, x := range []*Tensor{a, b, c} {
		r.write(x, 0, 'x')
	}
	r.drop(b, a)
	r.kinds()
	g := r.declare("g", 13, device.Grad)
	r.write(g, 0, 'g')
	if got := r.kinds(); got != "" {
		t.Errorf("moved %q", got)
	}
	r.mustRead(w, 0, 'w')
	r.mustRead(c, 0, 'x')
}

// TestReuseAfterFailedAcquire: memory that a failed attempt took is free again,
// with the uses that have not ended.
func TestReuseAfterFailedAcquire(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(12))
	a, b := r.declare("a", 8, device.Grad), r.declare("b", 8, device.Grad)
	never := r.declare("never", 4, device.Grad)
	second := r.addStream(0)
	free := r.compute[0].(*fakeStream).hold()
	r.write(a, 0, 'a')
	r.drop(a)
	needs := []Need{{b, 0, Write}, {never, 0, Read}}
	if err := r.m.Acquire(context.Background(), second, needs, 0, new(Lease)); !errors.Is(err, ErrUndefined) {
		t.Fatalf("error is %v", err)
	}
	var l Lease
	if err := r.m.Acquire(context.Background(), second, needs[:1], 2, &l); err != nil {
		t.Fatal(err)
	}
	if err := r.m.Abandon(&l); err != nil || l.Scratch != nil {
		t.Fatal(l.Scratch, err)
	}
	third := r.addStream(0)
	r.on(0, third, func() { r.write(b, 0, 'b') })
	if third.Record().Done() {
		t.Error("the new writer went ahead")
	}
	free()
	r.on(0, third, func() { r.mustRead(b, 0, 'b') })
}
