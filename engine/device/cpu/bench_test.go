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
