package devicetest

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// testRandomGraphs runs random graphs with random outputs and donations, and
// compares the results with those of the reference kernels in float64.
func testRandomGraphs(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Threads: 2, MemoryBytes: 1 << 22}, func(r *rig) {
		rapid.Check(t, func(rt *rapid.T) {
			g := randomGraph(rt)
			alias := randomAlias(rt, g)
			if err := r.compare(rt, g, alias); err != nil {
				rt.Fatalf("%v\nalias %v of outputs %v in\n%v", err, alias, g.Outputs, g.Nodes)
			}
		})
	})
}

// randomGraph builds a graph with a few outputs.
func randomGraph(rt *rapid.T) *graph.Graph {
	b := graph.NewBuilder("random", 1)
	values := randomValues(rt, b)
	for _, v := range rapid.SliceOfN(rapid.SampledFrom(values), 1, 5).Draw(rt, "outputs") {
		b.Output(v.Name, v)
	}
	g, err := b.Graph()
	if err != nil {
		rt.Fatal(err)
	}
	return g
}

// randomValues builds inputs and nodes; every value is a small matrix with
// elements that stay small.
func randomValues(rt *rapid.T, b *graph.Builder) []*graph.Value {
	dim := rapid.SampledFrom([]int{1, 2, 3, 4, 8})
	var vs []*graph.Value
	for i := range rapid.IntRange(1, 4).Draw(rt, "inputs") {
		vs = append(vs, b.Input(fmt.Sprintf("in%d", i), shape.F32(dim.Draw(rt, "rows"), dim.Draw(rt, "columns"))))
	}
	for range rapid.IntRange(0, 16).Draw(rt, "nodes") {
		x := rapid.SampledFrom(vs).Draw(rt, "x")
		vs = append(vs, randomNode(rt, b, vs, x))
	}
	return vs
}

func randomNode(rt *rapid.T, b *graph.Builder, vs []*graph.Value, x *graph.Value) *graph.Value {
	rows, columns := x.Meta.Shape[0], x.Meta.Shape[1]
	fit := func(ok func(s shape.Shape) bool) *graph.Value {
		y := rapid.SampledFrom(vs).Draw(rt, "y")
		if ok(y.Meta.Shape) {
			return y
		}
		return x
	}
	switch rapid.IntRange(0, 9).Draw(rt, "op") {
	case 0:
		return ops.Tanh(b, x)
	case 1:
		return ops.Relu(b, x)
	case 2:
		return b.One(ops.Affine{Scale: 0.5, Shift: 0.25}, x)
	case 3:
		return ops.TransposeTo(b, x, 1, 0)
	case 4, 5:
		return ops.ReshapeTo(b, x, columns, rows)
	case 6:
		return ops.Tanh(b, ops.Add(b, x, fit(func(s shape.Shape) bool { return s[1] == columns && (s[0] == 1 || s[0] == rows || rows == 1) })))
	case 7:
		return ops.Sub(b, x, ops.Mul(b, x, fit(func(s shape.Shape) bool { return s.Equal(x.Meta.Shape) })))
	case 8:
		y := fit(func(s shape.Shape) bool { return s[0] == columns })
		return ops.Tanh(b, ops.MatMulOf(b, x, y, false, y == x && rows != columns))
	default:
		return ops.Mean(b, x, true, 0)
	}
}

// randomAlias donates inputs to outputs of equal metadata.
func randomAlias(rt *rapid.T, g *graph.Graph) []int {
	alias, taken := make([]int, len(g.Outputs)), map[int]bool{}
	for k, v := range g.Outputs {
		alias[k] = -1
		j := rapid.IntRange(-1, len(g.Inputs)-1).Draw(rt, "donate")
		if j >= 0 && !taken[j] && g.Inputs[j].Meta.Equal(v.Meta) {
			alias[k], taken[j] = j, true
		}
	}
	return alias
}

// compare runs g on the device and with the reference kernels. It leaves the
// donations out if no order of the nodes allows them.
func (r *rig) compare(rt *rapid.T, g *graph.Graph, alias []int) error {
	x, err := r.d.Compile(g, device.CompileOptions{Alias: alias})
	if err != nil {
		for k := range alias {
			alias[k] = -1
		}
		if x, err = r.d.Compile(g, device.CompileOptions{}); err != nil {
			return err
		}
	}
	feed := map[*graph.Value]ref.Array{}
	var in, out []device.Buffer
	for _, v := range g.Inputs {
		data := rapid.SliceOfN(rapid.Float32Range(-1, 1), v.Meta.Elems(), v.Meta.Elems()).Draw(rt, v.Name)
		feed[v] = ref.Floats(widen(data), v.Meta.Shape...)
		in = append(in, r.upload(data, v.Meta.Shape...))
	}
	for k, v := range g.Outputs {
		if alias[k] >= 0 {
			out = append(out, in[alias[k]])
			continue
		}
		out = append(out, r.alloc(v.Meta))
	}
	r.launch(x, in, out)
	err = r.checkAgainst(g, feed, alias, in, out)
	r.sync(r.s)
	r.drop(in...)
	for k, b := range out {
		if alias[k] < 0 {
			r.drop(b)
		}
	}
	return err
}

// checkAgainst compares the outputs with the reference, and checks that inputs
// that were not donated are unchanged.
func (r *rig) checkAgainst(g *graph.Graph, feed map[*graph.Value]ref.Array, alias []int, in, out []device.Buffer) error {
	if !r.computes() {
		return nil
	}
	want, err := ref.Eval(g, feed)
	if err != nil {
		return err
	}
	for k, v := range g.Outputs {
		if err := near(r.get(out[k]), want[v].F); err != nil {
			return fmt.Errorf("output %d (%v): %w", k, v, err)
		}
	}
	for j, v := range g.Inputs {
		donated := false
		for _, a := range alias {
			donated = donated || a == j
		}
		if donated {
			continue
		}
		if err := near(r.get(in[j]), feed[v].F); err != nil {
			return fmt.Errorf("input %v was overwritten: %w", v, err)
		}
	}
	return nil
}

// widen is data in float64.
func widen(data []float32) []float64 {
	w := make([]float64, len(data))
	for i, v := range data {
		w[i] = float64(v)
	}
	return w
}

// near compares with a tolerance for float32's rounding in a few dozen nodes.
func near(got []float32, want []float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, expected %d", len(got), len(want))
	}
	for i, w := range want {
		if g := float64(got[i]); !(math.Abs(g-w) <= 1e-4*(1+math.Abs(w))) {
			return fmt.Errorf("element %d is %v, expected %v", i, g, w)
		}
	}
	return nil
}
