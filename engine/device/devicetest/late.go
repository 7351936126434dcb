package devicetest

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// twoParts has a kernel that reads x alone, and one that reads y too: a row of x times
// a matrix of ones, then that times y.
func twoParts(t *testing.T) *graph.Graph {
	t.Helper()
	return Segment(t, func(b *graph.Builder) []*graph.Value {
		x, y := b.Input("x", shape.F32(1, 2)), b.Input("y", shape.F32(2, 2))
		first := b.One(ops.MatMul{}, x, b.Input("w", shape.F32(2, 2)))
		return []*graph.Value{first, b.One(ops.MatMul{}, first, y)}
	})
}

// testDelayRead: a launch begins before all inputs are there. Each kernel waits for
// what it reads, and a launch ends no sooner than its inputs are there.
func testDelayRead(t *testing.T, open Opener) {
	kernels := make(chan device.KernelSpan, 64)
	o := device.OpenOptions{OnKernel: func(k device.KernelSpan) { kernels <- k }}
	with(t, open, o, func(r *rig) {
		s, ok := r.s.(device.Delayer)
		if !ok {
			if r.d.Spec().LateInputs {
				t.Error("Spec.LateInputs is set, but streams are no device.Delayer")
			}
			return
		}
		x := r.compile(twoParts(t), device.CompileOptions{})
		in := []device.Buffer{r.upload([]float32{1, 2}, 1, 2), r.upload([]float32{3, 4, 5, 6}, 2, 2), r.upload([]float32{1, 0, 0, 1}, 2, 2)}
		out := []device.Buffer{r.alloc(shape.F32(1, 2)), r.alloc(shape.F32(1, 2))}
		r.waitingIsFree(func(held time.Duration) (busy int64) {
			g := newGate()
			s.DelayRead(in[1], g.event())
			before := r.s.Busy()
			e := r.launch(x, in, out)
			if r.computes() {
				select {
				case <-kernels:
				case <-time.After(patience):
					t.Fatalf("OpenOptions.OnKernel heard of no kernel within %v: begin a launch before all its inputs are there, and tell of each kernel (streams.TimesOf, or host.Config.Options)", patience)
				}
			}
			time.Sleep(held)
			if e.Done() {
				t.Error("a launch did not wait for its input")
			}
			g.open(nil)
			r.ok(r.wait(e))
			return r.s.Busy() - before
		})
		r.expect(out[0], 1, 2)
		r.expect(out[1], 13, 16)
		r.launch(x, in, out) // waits for nothing
		r.sync(r.s)
		r.drop(in...)
		r.drop(out...)
	})
	t.Run("NotThere", func(t *testing.T) { testNeverThere(t, open) })
}

// testNeverThere: an input that does not arrive fails the launch with the cause, before
// it has overwritten a donated input. Its event ends after all that it was to wait for.
func testNeverThere(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		s, ok := r.s.(device.Delayer)
		if !ok {
			return
		}
		x := r.compile(Segment(t, func(b *graph.Builder) []*graph.Value {
			w, y := b.Input("w", shape.F32(2)), b.Input("y", shape.F32(2))
			return []*graph.Value{b.One(ops.Affine{Scale: 2, Shift: 1}, w), b.One(ops.Affine{Scale: 3}, y)}
		}), device.CompileOptions{Alias: []int{0, -1}})
		w, y, out := r.upload([]float32{1, 2}, 2), r.upload([]float32{3, 4}, 2), r.alloc(shape.F32(2))
		first, second := newGate(), newGate()
		s.DelayRead(y, first.event()) // the cause of the second one's failure
		s.DelayRead(y, second.event())
		e := r.launch(x, []device.Buffer{w, y}, []device.Buffer{w, out})
		first.open(errGate)
		time.Sleep(time.Millisecond)
		if e.Done() {
			t.Error("a launch that fails did not wait for all that it was to wait for")
		}
		second.open(errors.New("the copy's failure"))
		r.fails(r.wait(e), errGate)
		r.ok(r.s.Close()) // the failure was told
		r.s = r.stream("next")
		r.expect(w, 1, 2)
		r.drop(w, y, out)
	})
}

// testEarlyOutputs: an output that is ready before its launch has ended has its
// contents, and keeps them.
func testEarlyOutputs(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{}, func(r *rig) {
		x := r.compile(twoParts(t), device.CompileOptions{})
		in := []device.Buffer{r.upload([]float32{1, 2}, 1, 2), r.upload([]float32{3, 4, 5, 6}, 2, 2), r.upload([]float32{1, 0, 0, 1}, 2, 2)}
		out := []device.Buffer{r.alloc(shape.F32(1, 2)), r.alloc(shape.F32(1, 2))}
		for range 10 {
			e := r.launch(x, in, out)
			ready := out[0].Ready()
			if ready.Queue != e.Queue || ready.Seq > e.Seq {
				t.Fatalf("an output is ready at %v, its launch ends at %v", ready, e)
			}
			r.ok(r.wait(ready))
			other := r.stream("copy")
			if r.computes() {
				h := r.host(8)
				copied, err := other.CopyOut(h, out[0])
				r.ok(err)
				r.ok(r.wait(copied))
				if got := shape.View[float32](h.Bytes()); got[0] != 1 || got[1] != 2 {
					t.Errorf("an output that is ready has %v", got)
				}
				r.ok(h.Free())
			}
			r.ok(other.Close())
			r.ok(r.wait(e))
		}
		r.drop(in...)
		r.drop(out...)
	})
}
