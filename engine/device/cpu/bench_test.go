package cpu

import (
	"context"
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// BenchmarkLaunch times a launch of a few tiny nodes: what queueing, waking
// the stream, binding and waiting cost. "wait" waits for each; "queue" only for
// the last.
func BenchmarkLaunch(b *testing.B) {
	for _, nodes := range []int{1, 100} {
		for _, wait := range []bool{true, false} {
			b.Run(fmt.Sprintf("nodes=%d/wait=%v", nodes, wait), func(b *testing.B) { benchLaunch(b, nodes, wait) })
		}
	}
}

func benchLaunch(b *testing.B, nodes int, wait bool) {
	devs, err := Open(device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	d := devs[0]
	gb := graph.NewBuilder("bench", 1)
	y := gb.Input("x", shape.F32(16))
	for range nodes {
		y = ops.Neg(gb, y)
	}
	gb.Output("y", y)
	g, err := gb.Graph()
	if err != nil {
		b.Fatal(err)
	}
	x, err := d.Compile(g, device.CompileOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s, _ := d.NewStream("bench")
	in, _ := s.Alloc(shape.F32(16), device.Input)
	out, _ := s.Alloc(shape.F32(16), device.Activation)
	scratch, _ := s.Alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(x.Memory().Temporary))}, device.Scratch)
	ins, outs := []device.Buffer{in}, []device.Buffer{out}
	b.ReportAllocs()
	for b.Loop() {
		e, err := s.Launch(x, ins, outs, scratch)
		if err != nil {
			b.Fatal(err)
		}
		if wait {
			if err := e.Wait(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
	for _, err := range []error{s.Close(), in.Free(), out.Free(), scratch.Free(), d.Close()} {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWhile times a loop of up to 1,000 iterations that ends after 10, and the same nodes
// with nothing skipped. It reports the nodes that ran.
func BenchmarkWhile(b *testing.B) {
	for _, backward := range []bool{false, true} {
		for _, skip := range []bool{true, false} {
			b.Run(fmt.Sprintf("backward=%v/skip=%v", backward, skip), func(b *testing.B) { benchWhile(b, backward, skip) })
		}
	}
}

func benchWhile(b *testing.B, backward, skip bool) {
	gb := graph.NewBuilder("bench", 1)
	x, w, v := gb.Input("x", shape.F32(64, 128)), gb.Input("w", shape.F32(512, 128)), gb.Input("v", shape.F32(128, 512))
	last := ops.While(gb, 1000, []*graph.Value{x, ops.Const(gb, shape.F32(), 0)},
		func(gb *graph.Builder, c []*graph.Value) *graph.Value {
			return ops.Less(gb, c[1], ops.Const(gb, shape.F32(), 10))
		},
		func(gb *graph.Builder, c []*graph.Value) []*graph.Value {
			h := ops.Tanh(gb, ops.MatMulOf(gb, c[0], w, false, true))
			return []*graph.Value{ops.MatMulOf(gb, h, v, false, true), ops.AddConst(gb, c[1], 1)}
		})
	gb.Output("y", last[0])
	if loss := ops.Sum(gb, ops.Square(gb, last[0]), false); backward {
		d := gb.Gradients(loss, ops.Const(gb, shape.F32(), 1), []*graph.Value{w, v}, ops.AddOp)
		gb.Output("dw", d[w][0])
		gb.Output("dv", d[v][0])
	}
	g, err := gb.Graph()
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range g.Nodes {
		n.Conditional = n.Conditional && skip
	}
	nodes := 0
	count := func(k device.KernelSpan) { nodes += len(k.Work.Nodes) }
	devs, err := Open(device.OpenOptions{Count: 1, MemoryBytes: 1 << 30, OnKernel: count})
	if err != nil {
		b.Fatal(err)
	}
	d := devs[0]
	exe, err := d.Compile(g, device.CompileOptions{})
	if err != nil {
		b.Fatal(err)
	}
	s, _ := d.NewStream("bench")
	var all []device.Buffer
	alloc := func(m shape.Meta) device.Buffer {
		buf, err := s.Alloc(m, device.Activation)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, buf)
		return buf
	}
	ins, outs := []device.Buffer{alloc(x.Meta), alloc(w.Meta), alloc(v.Meta)}, []device.Buffer(nil)
	for _, v := range g.Outputs {
		outs = append(outs, alloc(v.Meta))
	}
	scratch := alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(exe.Memory().Temporary))})
	runs := 0
	for b.Loop() {
		e, err := s.Launch(exe, ins, outs, scratch)
		if err == nil {
			err = e.Wait(context.Background())
		}
		if err != nil {
			b.Fatal(err)
		}
		runs++
	}
	b.StopTimer()
	b.ReportMetric(float64(nodes)/float64(runs), "nodes/op")
	b.ReportMetric(float64(exe.Memory().Temporary), "temporary-bytes")
	for _, buf := range all {
		if err := buf.Free(); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}

// spread is a loop of chunks that each take about 2 µs.
type spread struct{ sums [64]float32 }

func (s *spread) Chunk(i int) {
	v := float32(i)
	for range 2000 {
		v = v*0.999 + 1
	}
	s.sums[i] = v
}

// BenchmarkPool times a parallel loop of 16 short chunks, alone and on 2
// threads.
func BenchmarkPool(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			p := newPool(threads)
			defer p.close()
			t := &spread{}
			b.ReportAllocs()
			for b.Loop() {
				p.Do(16, t)
			}
		})
	}
}
