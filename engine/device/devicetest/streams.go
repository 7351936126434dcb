package devicetest

import (
	"context"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func testCopies(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		b := r.upload([]float32{1, 2, 3}, 3)
		r.expect(b, 1, 2, 3)
		r.put(b, []float32{4, 5, 6})
		if !b.Ready().Done() {
			r.ok(r.wait(b.Ready()))
		}
		r.expect(b, 4, 5, 6)
		if !r.computes() {
			h := r.host(12)
			_, err := r.s.CopyOut(h, b)
			r.fails(err, device.ErrUnsupported)
			r.ok(h.Free())
		}
		big := make([]float32, 1<<20)
		for i := range big {
			big[i] = float32(i)
		}
		c := r.upload(big, 1<<10, 1<<10)
		r.expect(c, big...)
		r.drop(b, c)
	})
}

func testCopyMistakes(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Count: 2}, func(r *rig) {
		b, other := r.alloc(shape.F32(3)), r.allocOn(r.theirs[0], shape.F32(3))
		h, ok := r.host(16), r.host(12)
		r.fails(r.s.CopyIn(b, h), nil, "16", "12")
		r.fails(r.s.CopyIn(b, nil), nil)
		r.fails(r.s.CopyIn(nil, ok), nil)
		r.fails(r.s.CopyIn(other, ok), nil, string(r.others[0].ID()))
		r.fails(r.s.CopyPeer(b, b), nil)
		r.fails(r.s.CopyPeer(b, nil), nil)
		r.ok(h.Free())
		r.ok(ok.Free())
		r.fails(r.s.CopyIn(b, ok), device.ErrDeleted)
		if r.computes() {
			h := r.host(8)
			_, err := r.s.CopyOut(h, b)
			r.fails(err, nil, "8", "12")
			r.ok(h.Free())
		}
		r.sync(r.s) // nothing of this has failed the stream
		r.drop(b, other)
	})
}

func testPeers(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Count: 2}, func(r *rig) {
		if !r.d.Spec().PeerCopy {
			return
		}
		there, err := r.others[0].NewStream("there")
		r.ok(err)
		g := newGate()
		r.ok(r.s.WaitFor(g.event()))
		a := r.upload([]float32{1, 2, 3, 4}, 4)
		b, c := r.allocOn(r.theirs[0], shape.F32(4)), r.alloc(shape.F32(4))
		r.ok(there.WaitFor(r.theirs[0].Record())) // from which on it may use b
		r.ok(there.CopyPeer(b, a))                // waits for a, which waits for the gate
		r.ok(a.Free(there.Record()))
		over := r.upload([]float32{9, 9, 9, 9}, 4) // perhaps where a was, while it is read
		if there.Record().Done() {
			t.Error("the peer copy did not wait for its source")
		}
		r.fails(there.CopyPeer(c, b), nil, string(r.d.ID()))
		g.open(nil)
		r.ok(r.s.CopyPeer(c, b))
		r.expect(c, 1, 2, 3, 4)
		r.sync(r.s)
		r.drop(b, c, over)
		r.ok(there.Close())
	})
}

func testOrder(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		x := r.compile(affine(t, 2), device.CompileOptions{})
		a, b := r.alloc(shape.F32(2)), r.alloc(shape.F32(2))
		g := newGate()
		r.ok(r.s.WaitFor(g.event()))
		var events []device.Event
		r.put(a, []float32{0, 1})
		for range 5 { // each reads what the one before wrote
			events = append(events, r.launch(x, []device.Buffer{a}, []device.Buffer{b}))
			events = append(events, r.launch(x, []device.Buffer{b}, []device.Buffer{a}))
		}
		for _, e := range events {
			if e.Done() {
				t.Fatal("something ran before what it waits for")
			}
		}
		g.open(nil)
		r.ok(r.wait(events[9]))
		for _, e := range events {
			if !e.Done() || e.Err() != nil {
				t.Fatal("the last operation has ended, one before it not")
			}
		}
		r.expect(a, 1023, 2047)
		if r.s.Busy() <= 0 {
			t.Error("the stream has not counted its time")
		}
		r.drop(a, b)
	})
}

func testCrossStream(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		x := r.compile(affine(t, 2), device.CompileOptions{})
		compute := r.stream("compute")
		a, b := r.upload([]float32{3, 4}, 2), r.alloc(shape.F32(2))
		r.waitingIsFree(func(held time.Duration) (busy int64) {
			before := r.s.Busy()
			g := newGate()
			r.ok(r.s.WaitFor(g.event()))
			r.ok(compute.WaitFor(r.s.Record()))
			e, err := r.queue(compute, x, []device.Buffer{a}, []device.Buffer{b})
			r.ok(err)
			time.Sleep(held)
			if e.Done() || b.Ready().Done() {
				t.Error("a stream did not wait for the other")
			}
			g.open(nil)
			r.ok(r.s.WaitFor(b.Ready()))
			r.expect(b, 7, 9)
			r.ok(r.wait(e))
			return r.s.Busy() - before
		})
		r.drop(a, b)
		r.ok(compute.Close())
	})
}

func testFailure(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		x := r.compile(affine(t, 2), device.CompileOptions{})
		s, other, third := r.stream("fails"), r.stream("follows"), r.stream("quiet")
		a, b := r.upload([]float32{3, 4}, 2), r.alloc(shape.F32(2))
		r.sync(r.s)
		before, err := r.queue(s, x, []device.Buffer{a}, []device.Buffer{b})
		r.ok(err)
		g := newGate()
		r.ok(s.WaitFor(g.event()))
		var events []device.Event
		for range 10 {
			e, err := r.queue(s, x, []device.Buffer{a}, []device.Buffer{b})
			r.ok(err)
			events = append(events, e)
		}
		r.ok(other.WaitFor(events[4]))
		follow := other.Record()
		r.ok(third.WaitFor(g.event()))
		r.ok(r.wait(before))
		r.put(a, []float32{100, 100}) // must not be seen: the rest is skipped
		r.sync(r.s)
		g.open(errGate)
		for _, e := range append(events, b.Ready(), follow) {
			r.fails(r.wait(e), errGate)
			r.fails(e.Err(), errGate)
		}
		late, err := r.queue(s, x, []device.Buffer{a}, []device.Buffer{b})
		r.ok(err)
		r.fails(r.wait(late), errGate)
		r.expect(b, 7, 9) // of the launch before
		r.drop(a, b)
		r.ok(s.Close()) // reported already
		r.ok(other.Close())
		r.fails(third.Close(), errGate) // nobody asked
	})
}

func testKernelFailure(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		if !r.computes() {
			return
		}
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			defer b.In(&graph.Layer{Index: 3, Type: "embedding", Name: "wte", Block: "wte", Pos: graph.Pos{File: "m.yaml", Line: 7}})()
			return []*graph.Value{ops.EmbeddingOf(b, b.Input("table", shape.F32(4, 2)), b.Input("ids", shape.I32(2)))}
		})
		x := r.compile(g, device.CompileOptions{})
		table := r.upload(make([]float32, 8), 4, 2)
		ids, out := r.alloc(shape.I32(2)), r.alloc(shape.F32(2, 2))
		r.putBytes(ids, shape.Bytes([]int32{1, 9}))
		r.sync(r.s)
		s := r.stream("fails")
		e, err := r.queue(s, x, []device.Buffer{table, ids}, []device.Buffer{out})
		r.ok(err)
		r.fails(r.wait(e), nil, string(r.d.ID()), `layer 3 (embedding "wte")`, "m.yaml:7", "9")
		r.fails(out.Ready().Err(), nil, "9")
		r.ok(s.Close())
		r.drop(table, ids, out)
	})
}

// testBacklog queues more operations than any ring has room for.
func testBacklog(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		x := r.compile(affine(t, 1), device.CompileOptions{Alias: []int{0}})
		a := r.upload([]float32{-1}, 1)
		g := newGate()
		r.ok(r.s.WaitFor(g.event()))
		time.AfterFunc(20*time.Millisecond, func() { g.open(nil) })
		for range 5000 {
			r.launch(x, []device.Buffer{a}, []device.Buffer{a})
		}
		r.sync(r.s)
		r.expect(a, -1)
		if n := r.d.Stats().Launches; n != 5000 {
			t.Errorf("%d launches were counted, expected 5000", n)
		}
		r.drop(a)
	})
}

func testWaitEnds(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		g := newGate()
		r.ok(r.s.WaitFor(g.event()))
		e := r.s.Record()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		r.fails(e.Wait(ctx), context.DeadlineExceeded)
		if e.Done() || e.Err() != nil {
			t.Error("an event is done because someone stopped waiting")
		}
		g.open(nil)
		r.ok(r.wait(e))
		r.ok(r.wait(device.Event{}))
	})
}

// testCancel: what has ended stays, what has not begun is skipped, and other streams go on.
func testCancel(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		x := r.compile(affine(t, 2), device.CompileOptions{})
		s, other := r.stream("canceled"), r.stream("follows")
		a, b := r.upload([]float32{3, 4}, 2), r.alloc(shape.F32(2))
		r.sync(r.s)
		before, err := r.queue(s, x, []device.Buffer{a}, []device.Buffer{b})
		r.ok(err)
		r.ok(r.wait(before))
		g := newGate()
		r.ok(s.WaitFor(g.event()))
		skipped, err := r.queue(s, x, []device.Buffer{b}, []device.Buffer{a})
		r.ok(err)
		r.ok(other.WaitFor(skipped))
		s.Cancel(errGate)
		s.Cancel(device.ErrLost) // the first cause stays
		g.open(nil)
		late, err := r.queue(s, x, []device.Buffer{b}, []device.Buffer{a})
		r.ok(err)
		for _, e := range []device.Event{skipped, other.Record(), late} {
			r.fails(r.wait(e), errGate)
		}
		if here, ok := s.(device.Runner); ok {
			if _, ok, _ := here.Run(x, []device.Buffer{b}, []device.Buffer{a}, nil); ok {
				t.Error("a launch ran on a canceled stream")
			}
		}
		r.ok(before.Err())
		r.expect(a, 3, 4)
		r.expect(b, 7, 9)
		r.ok(s.Close())
		r.ok(other.Close())
		r.drop(a, b)
	})
}

func testSync(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Sync: true}, func(r *rig) {
		x := r.compile(affine(t, 1<<16), device.CompileOptions{})
		a, b := r.upload(make([]float32, 1<<16), 1<<16), r.alloc(shape.F32(1<<16))
		for range 10 {
			if e := r.launch(x, []device.Buffer{a}, []device.Buffer{b}); !e.Done() {
				t.Fatal("a launch returned before it was done")
			}
		}
		g := newGate() // copies do not wait for it here: who queues them may hold a lock
		copies := r.stream("copies")
		r.ok(copies.WaitFor(g.event()))
		h := r.host(4 << 16)
		r.ok(copies.CopyIn(a, h))
		r.ok(h.Free())
		if copies.Record().Done() {
			t.Fatal("a copy was done before the event that it waits for")
		}
		r.ok(r.s.WaitFor(copies.Record()))
		time.AfterFunc(time.Millisecond, func() { g.open(nil) })
		if e := r.launch(x, []device.Buffer{a}, []device.Buffer{b}); !e.Done() {
			t.Fatal("a launch returned before its input was there")
		}
		r.ok(copies.Close())
		r.drop(a, b)
	})
}
