package devicetest

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// testRunner checks the streams that run launches on the caller's goroutine, if the
// device has any.
func testRunner(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Count: 2}, func(r *rig) {
		s, err := device.Opened(r.d).NewStream("here")
		r.ok(err)
		here, ok := s.(device.Runner)
		if !ok {
			r.ok(s.Close())
			return
		}
		x := r.compile(affine(t, 2), device.CompileOptions{})
		a, b := r.upload([]float32{1, 2}, 2), r.alloc(shape.F32(2))
		in, out := []device.Buffer{a}, []device.Buffer{b}
		r.sync(r.s)
		_, ok, err = here.Run(x, in, out, nil)
		r.ok(err)
		if !ok { // the kind does not run launches there
			r.ok(s.Close())
			r.drop(a, b)
			return
		}
		launches := r.d.Stats().Launches
		for range 300 { // launches of both sorts, more than a queue keeps together
			e, ok, err := here.Run(x, in, out, nil)
			r.ok(err)
			if !ok || !e.Done() || e.Err() != nil {
				t.Fatalf("ran: %v; ended: %v, %v", ok, e.Done(), e.Err())
			}
			e, err = r.queue(s, x, out, in)
			r.ok(err)
			r.ok(r.wait(e))
		}
		if n := r.d.Stats().Launches - launches; n != 600 {
			t.Errorf("%d launches were counted, expected 600", n)
		}
		_, _, err = here.Run(x, out, out, nil)
		r.fails(err, nil, "output 0")

		g := newGate()
		r.ok(s.WaitFor(g.event()))
		if e, ok, err := here.Run(x, in, out, nil); ok || err != nil {
			t.Fatalf("a launch ran before the work that was queued: %v, %v", e, err)
		}
		g.open(nil)
		r.ok(r.wait(s.Record()))
		r.ok(s.Close())
		r.drop(a, b)
		r.runnerFails()
	})
}

// runnerFails checks a launch that fails on the caller's goroutine.
func (r *rig) runnerFails() {
	if !r.computes() {
		return
	}
	g := Segment(r.t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.EmbeddingOf(b, b.Input("table", shape.F32(4, 2)), b.Input("ids", shape.I32(1)))}
	})
	x := r.compile(g, device.CompileOptions{})
	table, ids, out := r.upload(make([]float32, 8), 4, 2), r.alloc(shape.I32(1)), r.alloc(shape.F32(1, 2))
	r.putBytes(ids, shape.Bytes([]int32{9}))
	r.sync(r.s)
	s, err := device.Opened(r.d).NewStream("fails")
	r.ok(err)
	in, outs := []device.Buffer{table, ids}, []device.Buffer{out}
	e, ok, err := s.(device.Runner).Run(x, in, outs, nil)
	if !ok {
		r.t.Fatalf("a launch did not run: %v", err)
	}
	r.fails(err, nil, "9")
	r.fails(r.wait(e), nil, "9")
	if _, ok, _ := s.(device.Runner).Run(x, in, outs, nil); ok {
		r.t.Error("a launch ran on a stream that has failed")
	}
	late, err := r.queue(s, x, in, outs)
	r.ok(err)
	r.fails(r.wait(late), nil, "9")
	r.ok(s.Close())
	r.drop(table, ids, out)
}
