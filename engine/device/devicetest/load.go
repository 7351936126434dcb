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
	g := build(t, func(b *graph.Builder) []*graph.Value {
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
	a, err := d.Alloc(g.Inputs[0].Meta, device.Input)
	if err != nil {
		return err
	}
	b, err := d.Alloc(g.Outputs[0].Meta, device.Activation)
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
	e, err := work.Launch(x, []device.Buffer{a}, []device.Buffer{b})
	if err != nil {
		return err
	}
	if err := a.Delete(); err != nil {
		return err
	}
	if d.Spec().CopyOut {
		if e, err = work.CopyOut(h, b); err != nil {
			return err
		}
	}
	if err := b.Delete(); err != nil {
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
		g := build(t, func(b *graph.Builder) []*graph.Value {
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
				_, err := s.Launch(x, []device.Buffer{sums[i], ins[i]}, sums[i:i+1])
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

// testSteadyState checks that a step allocates no Go memory.
func testSteadyState(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Threads: 2}, func(r *rig) {
		const n = 64
		g := build(t, func(b *graph.Builder) []*graph.Value {
			x, w := b.Input("x", shape.F32(n, n)), b.Input("w", shape.F32(n, n))
			y := ops.Relu(b, ops.MatMulOf(b, x, w, false, false))
			return []*graph.Value{ops.Sub(b, w, ops.MatMulOf(b, x, y, true, false)), ops.Sum(b, y, false, 0, 1)}
		})
		x := r.compile(g, device.CompileOptions{Alias: []int{1, -1}})
		copies := r.stream("copies")
		batch, w, loss := r.alloc(shape.F32(n, n)), r.upload(make([]float32, n*n), n, n), r.alloc(shape.F32())
		h := r.host(4 * n * n)
		in, out := []device.Buffer{batch, w}, []device.Buffer{w, loss}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		step := func() {
			r.ok(copies.WaitFor(w.Ready()))
			r.ok(copies.CopyIn(batch, h))
			r.ok(r.s.WaitFor(batch.Ready()))
			r.ok(r.launch(x, in, out).Wait(ctx))
		}
		for range 20 {
			step()
		}
		if n := testing.AllocsPerRun(100, step); n != 0 {
			t.Errorf("a step allocates %v times", n)
		}
		allocs := r.d.Stats().Allocs
		step()
		if now := r.d.Stats().Allocs; now != allocs {
			t.Errorf("a step allocates %d device buffers", now-allocs)
		}
		r.drop(batch, w, loss)
		r.ok(h.Free())
		r.ok(copies.Close())
	})
}
