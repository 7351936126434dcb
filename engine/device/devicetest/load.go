package devicetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// testHammer uses one device from many goroutines at once.
func testHammer(t *testing.T, open Opener) {
	const goroutines, rounds, n = 6, 60, 3000
	with(t, open, device.OpenOptions{Threads: 3}, func(r *rig) {
		errs := make(chan error, goroutines)
		var all sync.WaitGroup
		for i := range goroutines {
			all.Go(func() { errs <- hammer(t, r.d, i, rounds, n) })
		}
		all.Wait()
		for range goroutines {
			r.ok(<-errs)
		}
	})
}

// hammer copies in, computes and copies out on two streams of its own. It
// allocates buffers and deletes them while queued work uses them.
func hammer(t *testing.T, d device.Device, who, rounds, n int) error {
	feed, err := d.NewStream(fmt.Sprintf("feed%d", who))
	if err != nil {
		return err
	}
	work, err := d.NewStream(fmt.Sprintf("work%d", who))
	if err != nil {
		return err
	}
	h, err := d.AllocHost(int64(4 * n))
	if err != nil {
		return err
	}
	g := Segment(t, func(b *graph.Builder) []*graph.Value {
		y := b.One(ops.Affine{Scale: 2, Shift: 1}, b.Input("x", shape.F32(n)))
		for range who % 2 { // two signatures are compiled at the same time
			y = ops.Relu(b, y)
		}
		return []*graph.Value{ops.AddConst(b, y, 1)}
	})
	for round := range rounds {
		if err := hammerOnce(d, feed, work, h, g, float32(who*rounds+round)); err != nil {
			return fmt.Errorf("goroutine %d, round %d: %w", who, round, err)
		}
	}
	for _, err := range []error{h.Free(), feed.Close(), work.Close()} {
		if err != nil {
			return err
		}
	}
	return nil
}

// hammerOnce is one round of hammer: y = 2v+2 for all elements.
func hammerOnce(d device.Device, feed, work device.Stream, h device.HostBuffer, g *graph.Graph, v float32) error {
	x, err := d.Compile(g, device.CompileOptions{})
	if err != nil {
		return err
	}
	a, err := feed.Alloc(g.Inputs[0].Meta, device.Input)
	if err != nil {
		return err
	}
	b, err := work.Alloc(g.Outputs[0].Meta, device.Activation)
	if err != nil {
		return err
	}
	scratch, err := work.Alloc(scratchFor(x), device.Scratch)
	if err != nil {
		return err
	}
	data := shape.View[float32](h.Bytes())
	for i := range data {
		data[i] = v
	}
	if err := feed.CopyIn(a, h); err != nil {
		return err
	}
	if err := work.WaitFor(a.Ready()); err != nil {
		return err
	}
	e, err := work.Launch(x, []device.Buffer{a}, []device.Buffer{b}, scratch)
	if err != nil {
		return err
	}
	if err := a.Free(e); err != nil {
		return err
	}
	if err := scratch.Free(e); err != nil {
		return err
	}
	if d.Spec().CopyOut {
		if e, err = work.CopyOut(h, b); err != nil {
			return err
		}
	}
	if err := b.Free(e); err != nil {
		return err
	}
	if err := e.Wait(context.Background()); err != nil || !d.Spec().CopyOut {
		return err
	}
	for i, got := range data {
		if got != 2*v+2 {
			return fmt.Errorf("element %d is %v, expected %v", i, got, 2*v+2)
		}
	}
	return nil
}

// testTwoStreams launches one executable with temporaries from two streams at
// once. A launch that read another's temporaries would change its sum.
func testTwoStreams(t *testing.T, open Opener) {
	const n, launches = 4096, 300
	with(t, open, device.OpenOptions{Threads: 2}, func(r *rig) {
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			sum, x := b.Input("sum", shape.F32(n)), b.Input("x", shape.F32(n))
			y := ops.AddConst(b, x, 1)
			return []*graph.Value{ops.Add(b, sum, ops.Sub(b, ops.ScaleBy(b, y, 2), y))}
		})
		x := r.compile(g, device.CompileOptions{Alias: []int{0}})
		streams := []device.Stream{r.s, r.stream("second")}
		var sums, ins []device.Buffer
		for i := range streams {
			sums = append(sums, r.upload(make([]float32, n), n))
			ins = append(ins, r.upload(ramp(n, float32(i)), n))
		}
		r.ok(streams[1].WaitFor(r.s.Record()))
		for range launches {
			for i, s := range streams {
				_, err := r.queue(s, x, []device.Buffer{sums[i], ins[i]}, sums[i:i+1])
				r.ok(err)
			}
		}
		r.sync(streams[1])
		for i, b := range sums {
			want := make([]float32, n)
			for j := range want {
				want[j] = launches * float32(i*j+1)
			}
			r.expect(b, want...)
		}
		r.sync(r.s)
		r.drop(append(sums, ins...)...)
		r.ok(streams[1].Close())
	})
}

// testSteadyState checks that a step which takes and frees device memory
// allocates no Go memory.
func testSteadyState(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Threads: 2}, func(r *rig) {
		const n = 64
		g := Segment(t, func(b *graph.Builder) []*graph.Value {
			x, w := b.Input("x", shape.F32(n, n)), b.Input("w", shape.F32(n, n))
			y := ops.Relu(b, ops.MatMulOf(b, x, w, false, false))
			return []*graph.Value{ops.Sub(b, w, ops.MatMulOf(b, x, y, true, false)), ops.Sum(b, y, false, 0, 1)}
		})
		x := r.compile(g, device.CompileOptions{Alias: []int{1, -1}})
		copies := r.stream("copies")
		w := r.upload(make([]float32, n*n), n, n)
		h := r.host(4 * n * n)
		in, out, after := []device.Buffer{nil, w}, []device.Buffer{w, nil}, make([]device.Event, 1)
		metas := append(graph.Metas(g.Outputs), g.Inputs[0].Meta, scratchFor(x))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		step := func() {
			batch, err := copies.Alloc(metas[2], device.Input)
			r.ok(err)
			loss, err := r.s.Alloc(metas[1], device.Activation)
			r.ok(err)
			scratch, err := r.s.Alloc(metas[3], device.Scratch)
			r.ok(err)
			in[0], out[1] = batch, loss
			r.ok(copies.CopyIn(batch, h))
			r.ok(r.s.WaitFor(batch.Ready()))
			after[0], err = r.s.Launch(x, in, out, scratch)
			r.ok(err)
			for _, b := range []device.Buffer{batch, loss, scratch} {
				r.ok(b.Free(after...))
			}
			r.ok(after[0].Wait(ctx))
			r.d.Passed(after[0])
		}
		for range 100 {
			step()
		}
		peak := r.d.Stats().Peak
		if n := testing.AllocsPerRun(100, step); n != 0 && !dropsPooled {
			t.Errorf("a step allocates %v times", n)
		}
		if now := r.d.Stats().Peak; now != peak {
			t.Errorf("the peak grew from %d bytes to %d", peak, now)
		}
		r.drop(w)
		r.ok(h.Free())
		r.ok(copies.Close())
	})
}
