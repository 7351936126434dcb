package bench

import (
	"bytes"
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
)

// TestFusedStepsEqualPlainOnes runs a step of workloads as it is fused, and node
// by node as CheckFinite has it, and wants the same bits.
func TestFusedStepsEqualPlainOnes(t *testing.T) {
	testall.Long(t)
	for _, name := range []string{"mlp", "cnn", "gpt-nano"} {
		t.Run(name, func(t *testing.T) {
			w, err := Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			g, err := w.Graph(1, false)
			if err != nil {
				t.Fatal(err)
			}
			devs, err := openDevices("cpu", device.OpenOptions{Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			p, err := partition.New(g, partition.PlanOptions{Devices: specsOf(devs), Microbatches: 1})
			if err != nil {
				t.Fatal(err)
			}
			for i := range p.Segments {
				segment := p.Segments[i].First.Graph
				plain := runOnce(t, w, devs[0], segment, device.CompileOptions{CheckFinite: true})
				fused := runOnce(t, w, devs[0], segment, device.CompileOptions{})
				for k, v := range segment.Outputs {
					if !bytes.Equal(plain[k], fused[k]) {
						t.Errorf("%s: %v has other bits when fused", segment.Name, v)
					}
				}
			}
			if err := devs[0].Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// runOnce runs a segment on made-up inputs and returns its outputs.
func runOnce(t *testing.T, w Workload, d device.Device, g *graph.Graph, o device.CompileOptions) [][]byte {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	x, err := d.Compile(g, o)
	check(err)
	s, err := d.NewStream("test")
	check(err)
	var buffers []device.Buffer
	var pinned []device.HostBuffer
	alloc := func(v *graph.Value) (device.Buffer, device.HostBuffer) {
		b, err := s.Alloc(v.Meta, device.Activation)
		check(err)
		h, err := d.AllocHost(v.Meta.Bytes())
		check(err)
		buffers, pinned = append(buffers, b), append(pinned, h)
		return b, h
	}
	for _, v := range g.Inputs {
		b, h := alloc(v)
		makeUp(w, v, h.Bytes())
		check(s.CopyIn(b, h))
	}
	for _, v := range g.Outputs {
		alloc(v)
	}
	n := len(g.Inputs)
	scratch, err := s.Alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(x.Memory().Temporary))}, device.Scratch)
	check(err)
	_, err = s.Launch(x, buffers[:n], buffers[n:], scratch)
	check(err)
	var out [][]byte
	for k := range g.Outputs {
		e, err := s.CopyOut(pinned[n+k], buffers[n+k])
		check(err)
		check(e.Wait(t.Context()))
		out = append(out, bytes.Clone(pinned[n+k].Bytes()))
	}
	check(s.Close())
	check(scratch.Free())
	for i, b := range buffers {
		check(b.Free())
		check(pinned[i].Free())
	}
	return out
}

// makeUp fills an input: positive floats, since there are averages of squares
// among them, and numbers of classes.
func makeUp(w Workload, v *graph.Value, dst []byte) {
	if v.Meta.DType == shape.Int32 {
		fill(w, v, rng.Named(seed, v.Name), dst)
		return
	}
	x := shape.View[float32](dst)
	rng.Normal(x, rng.Named(seed, v.Name), 0.1)
	for i, f := range x {
		x[i] = float32(math.Abs(float64(f)))
	}
}
