package cpu

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// TestWeightsStayPacked runs a product of bfloat16 with a bias several times, and wants
// its weights to stay packed, and always the same result.
func TestWeightsStayPacked(t *testing.T) {
	for l := isa.Generic; l <= isa.Best(); l++ {
		t.Run(l.String(), func(t *testing.T) {
			t.Setenv(ISAVariable, l.String())
			testWeightsStayPacked(t)
		})
	}
}

func testWeightsStayPacked(t *testing.T) {
	const m, n, k = 40, 72, 56
	devs, err := Open(device.OpenOptions{Count: 1, Threads: 2, MemoryBytes: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	d := devs[0]
	gb := graph.NewBuilder("test", 1)
	x, w, bias := gb.Input("x", shape.F32(m, k)), gb.Input("w", shape.F32(k, n)), gb.Input("bias", shape.F32(n))
	gb.Output("y", ops.Add(gb, gb.One(ops.MatMul{BF16: true}, x, w), bias))
	g, err := gb.Graph()
	if err != nil {
		t.Fatal(err)
	}
	run, err := d.Compile(g, device.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream("test")
	if err != nil {
		t.Fatal(err)
	}
	var in []device.Buffer
	for i, v := range append(g.Inputs, g.Outputs...) {
		b, err := s.Alloc(v.Meta, device.Weight)
		if err != nil {
			t.Fatal(err)
		}
		in = append(in, b)
		fill(t, d, s, b, i)
	}
	scratch, err := s.Alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(run.Memory().Temporary))}, device.Scratch)
	if err != nil {
		t.Fatal(err)
	}
	var want []float32
	for step := range 6 {
		if step == 3 {
			fill(t, d, s, in[1], 9)
		}
		if step == 5 {
			fill(t, d, s, in[1], 1) // as it was
		}
		if _, err := s.Launch(run, in[:3], in[3:], scratch); err != nil {
			t.Fatal(err)
		}
		y := contents(t, d, s, in[3])
		if want == nil {
			want = y
		}
		if same := slices.Equal(y, want); same == (step == 3 || step == 4) {
			t.Fatalf("launch %d: the same result as at first: %v", step, same)
		}
		packed := d.Stats().Cached
		if step == 0 && packed != 0 || step > 0 && packed < 2*n*k {
			t.Errorf("launch %d: %d bytes stay packed", step, packed)
		}
	}
	errs := []error{s.Close()}
	for _, b := range append(in, scratch) {
		errs = append(errs, b.Free())
	}
	if err := errors.Join(append(errs, d.Close())...); err != nil {
		t.Error(err)
	}
}

// fill writes numbers that seed decides.
func fill(t *testing.T, d device.Device, s device.Stream, b device.Buffer, seed int) {
	t.Helper()
	h, err := d.AllocHost(b.Meta().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i := range shape.View[float32](h.Bytes()) {
		shape.View[float32](h.Bytes())[i] = float32((i*7+seed)%13) - 6
	}
	if err := errors.Join(s.CopyIn(b, h), h.Free()); err != nil {
		t.Fatal(err)
	}
}

// contents copies a buffer out.
func contents(t *testing.T, d device.Device, s device.Stream, b device.Buffer) []float32 {
	t.Helper()
	h, err := d.AllocHost(b.Meta().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.CopyOut(h, b)
	if err == nil {
		err = e.Wait(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	y := append([]float32(nil), shape.View[float32](h.Bytes())...)
	if err := h.Free(); err != nil {
		t.Fatal(err)
	}
	return y
}
