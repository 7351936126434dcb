package cl

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// TestOps compares every op with its reference, on random inputs.
func TestOps(t *testing.T) {
	if os.Getenv("TEST_ALL") == "" {
		t.Skip("compiles many kernels: set TEST_ALL")
	}
	devs, err := Open(device.OpenOptions{Count: 1, MemoryBytes: 1 << 28})
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	d := devs[0]
	defer d.Close()
	for _, kind := range gen.Kinds() {
		draw := kernelstest.Cases[kind]
		if draw == nil {
			t.Logf("no case of %s", kind)
			continue
		}
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				s := draw(kernelstest.NewSource(rt))
				if err := runSample(rt, d, s); err != nil && !errors.Is(err, device.ErrUnsupported) {
					rt.Fatal(err)
				}
			})
		})
	}
}

// runSample runs one op and compares its outputs.
func runSample(t *rapid.T, d device.Device, s kernelstest.Sample) error {
	want, err := ref.Run(s.Op, s.In)
	if err != nil {
		return nil
	}
	b := graph.NewBuilder("op", 1)
	var ins []*graph.Value
	for i, a := range s.In {
		ins = append(ins, b.Input(fmt.Sprint("in", i), a.Meta))
	}
	for i, v := range b.Apply(s.Op, ins...) {
		b.Output(fmt.Sprint("out", i), v)
	}
	g, err := b.Graph()
	if err != nil {
		return nil
	}
	x, err := d.Compile(g, device.CompileOptions{})
	if err != nil {
		return err
	}
	defer x.Release()
	st, err := d.NewStream("s")
	if err != nil {
		return err
	}
	defer st.Close()
	var in, out []device.Buffer
	for _, a := range s.In {
		buf, err := st.Alloc(a.Meta, device.Activation)
		if err != nil {
			return err
		}
		defer buf.Free()
		if err := st.CopyIn(buf, &bytesOf{kernelstest.Load(a).Mem}); err != nil {
			return err
		}
		in = append(in, buf)
	}
	for _, v := range g.Outputs {
		buf, err := st.Alloc(v.Meta, device.Activation)
		if err != nil {
			return err
		}
		defer buf.Free()
		if err := st.CopyIn(buf, &bytesOf{slices.Repeat([]byte{0xff}, int(v.Meta.Bytes()))}); err != nil {
			return err
		}
		out = append(out, buf)
	}
	var scratch device.Buffer
	if n := x.Memory().Temporary; n > 0 {
		if scratch, err = st.Alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(n))}, device.Scratch); err != nil {
			return err
		}
		defer scratch.Free()
	}
	e, err := st.Launch(x, in, out, scratch)
	if err != nil {
		return err
	}
	if err := e.Wait(t.Context()); err != nil {
		return err
	}
	for i, w := range want {
		got := &bytesOf{make([]byte, w.Meta.Bytes())}
		e, err := st.CopyOut(got, out[i])
		if err == nil {
			err = e.Wait(t.Context())
		}
		if err != nil {
			return err
		}
		for k, v := range w.I {
			if g := shape.View[int32](got.b)[k]; g != v {
				return fmt.Errorf("%s %v: output %d element %d is %d, want %d", graph.OpString(s.Op), graph.Metas(g2(ins)), i, k, g, v)
			}
		}
		for k, v := range w.F {
			v, g := float64(float32(v)), float64(shape.View[float32](got.b)[k])
			if !(math.Abs(g-v) <= 2*s.Tol*(1+math.Abs(v))) && !(math.IsNaN(g) && math.IsNaN(v)) && g != v {
				return fmt.Errorf("%s %v: output %d element %d is %v, want %v", graph.OpString(s.Op), graph.Metas(g2(ins)), i, k, g, v)
			}
		}
	}
	return nil
}

func g2(v []*graph.Value) []*graph.Value { return v }

// bytesOf is host memory of the test's own.
type bytesOf struct{ b []byte }

func (h *bytesOf) Bytes() []byte { return h.b }
func (h *bytesOf) Free() error   { return nil }
