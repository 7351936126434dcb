package cl

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// BenchmarkMatMul multiplies square matrices, in each layout.
func BenchmarkMatMul(b *testing.B) {
	devices, err := Open(device.OpenOptions{Count: 1, MemoryBytes: 1 << 28})
	if err != nil {
		b.Skip(err)
	}
	defer devices[0].Close()
	for _, n := range []int{64, 512} {
		for layout, o := range map[string]ops.MatMul{"nn": {}, "nt": {TransB: true}, "tn": {TransA: true}} {
			b.Run(fmt.Sprint(layout, n), func(b *testing.B) { benchProduct(b, devices[0], o, n) })
		}
	}
}

func benchProduct(b *testing.B, d device.Device, o ops.MatMul, n int) {
	build := graph.NewBuilder("product", 1)
	build.Output("z", build.One(o, build.Input("x", shape.F32(n, n)), build.Input("y", shape.F32(n, n))))
	g, err := build.Graph()
	if err != nil {
		b.Fatal(err)
	}
	x, err := d.Compile(g, device.CompileOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Release()
	s, err := d.NewStream("test")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var bufs []device.Buffer
	for range 3 {
		buf, err := s.Alloc(shape.F32(n, n), device.Activation)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.CopyIn(buf, &hostBytes{make([]byte, 4*n*n)}); err != nil {
			b.Fatal(err)
		}
		bufs = append(bufs, buf)
	}
	defer func() {
		for _, buf := range bufs {
			buf.Free()
		}
	}()
	least := time.Hour
	for b.Loop() {
		start := time.Now()
		e, err := s.Launch(x, bufs[:2], bufs[2:], nil)
		if err == nil {
			err = e.Wait(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		least = min(least, time.Since(start))
	}
	b.ReportMetric(float64(least.Microseconds())/1000, "least-ms")
}
