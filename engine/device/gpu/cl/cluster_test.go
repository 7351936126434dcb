package cl

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// TestClustersEqualTheirNodes runs random graphs node by node and fused, and wants the
// same bits.
func TestClustersEqualTheirNodes(t *testing.T) {
	d, l := openAlone(t)
	var graphs []*graph.Graph
	var calls []gen.Call
	for _, draw := range kernelstest.Fusable[1:] {
		for seed := range testall.Or(1, 30) {
			g := rapid.Custom(draw).Example(seed)
			graphs = append(graphs, g)
			calls = append(calls, kernelsOf(t, g)...)
		}
	}
	t.Logf("%d graphs, %d kernels", len(graphs), countNames(calls))
	if _, err := l.add(calls, nil); err != nil { // as one program
		t.Fatal(err)
	}
	fused := 0
	for i, g := range graphs {
		in := kernelstest.Inputs(g, rand.New(rand.NewPCG(uint64(i), 1)))
		want, got := runGraph(t, d, g, in, true), runGraph(t, d, g, in, false)
		fused += len(g.Nodes) - fuse.Cut(g, nil).Kernels()
		for k, v := range g.Outputs {
			if !kernelstest.SameBits(got[k], want[k]) {
				t.Errorf("graph %d: %v has other bits when fused:\n%v", i, v, fuse.Cut(g, nil))
			}
		}
	}
	if fused == 0 {
		t.Error("nothing was fused")
	}
}

// countNames counts different kernels.
func countNames(calls []gen.Call) int {
	names := map[string]bool{}
	for _, c := range calls {
		names[c.Name] = true
	}
	return len(names)
}

// openAlone opens a device that runs nodes alone where it is asked to check that numbers
// are finite, and does not check. It returns its kernels too.
func openAlone(t *testing.T) (device.Device, *library) {
	t.Helper()
	list, err := usable()
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	c, err := openContext(list[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLibrary(c)
	if err != nil {
		t.Fatal(err)
	}
	var m *memory
	d, err := streams.New(streams.Config{
		Spec: spec("opencl:0", c.of, 1<<28), Host: host.Mappings{}, Supports: supports, Stop: l.close,
		Reserve: func(bytes int64) (_ streams.Memory, err error) {
			m, err = reserve(c, bytes)
			return m, err
		},
		Bind: func(p *planner.Plan, o device.CompileOptions) (streams.Program, error) {
			o.CheckFinite = false
			return bind(l, m, p, o)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, l
}

// kernelsOf lists the kernels of a graph, fused and not.
func kernelsOf(t *testing.T, g *graph.Graph) (calls []gen.Call) {
	t.Helper()
	for _, k := range slices.Concat(fuse.Alone(g).Clusters, fuse.Cut(g, nil).Clusters) {
		if fuse.IsView(k.Nodes[0]) {
			continue
		}
		more, _, err := gen.Cluster(k)
		if err != nil {
			t.Fatalf("%s: %v", k.Name(), err)
		}
		calls = append(calls, more...)
	}
	return calls
}

// runGraph runs a graph and returns its outputs.
func runGraph(t *testing.T, d device.Device, g *graph.Graph, inputs map[*graph.Value][]byte, alone bool) (outputs [][]byte) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	x, err := d.Compile(g, device.CompileOptions{CheckFinite: alone})
	check(err)
	defer x.Release()
	s, err := d.NewStream("test")
	check(err)
	defer s.Close()
	fill := func(m shape.Meta, contents []byte) device.Buffer {
		b, err := s.Alloc(m, device.Activation)
		check(err)
		check(s.CopyIn(b, &hostBytes{contents}))
		return b
	}
	blank := func(m shape.Meta) device.Buffer { return fill(m, slices.Repeat([]byte{0xff}, int(m.Bytes()))) }
	var in, out []device.Buffer
	for _, v := range g.Inputs {
		in = append(in, fill(v.Meta, inputs[v]))
	}
	for _, v := range g.Outputs {
		out = append(out, blank(v.Meta))
	}
	var scratch device.Buffer
	if n := x.Memory().Temporary; n > 0 {
		scratch = blank(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(n))})
		defer scratch.Free()
	}
	e, err := s.Launch(x, in, out, scratch)
	check(err)
	check(e.Wait(t.Context()))
	for _, b := range out {
		to := &hostBytes{make([]byte, b.Meta().Bytes())}
		e, err := s.CopyOut(to, b)
		check(err)
		check(e.Wait(t.Context()))
		outputs = append(outputs, to.b)
	}
	for _, b := range slices.Concat(in, out) {
		b.Free()
	}
	return outputs
}

// hostBytes is host memory of the test's own.
type hostBytes struct{ b []byte }

func (h *hostBytes) Bytes() []byte { return h.b }
func (h *hostBytes) Free() error   { return nil }
