package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// testGuards checks that a step runs where all of its guards are met, and leaves its outputs
// as they are where one is not: kernels of each way of going over data, and one that would
// fail.
func testGuards(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Threads: 2}, func(r *rig) {
		g := Segment(t, func(b *graph.Builder) (outs []*graph.Value) {
			b.Input("p", shape.F32())
			b.Input("q", shape.F32(2)) // the first number counts
			x, w, ids := b.Input("x", shape.F32(4, 8)), b.Input("w", shape.F32(8, 8)), b.Input("ids", shape.I32(3))
			qkv := b.Input("qkv", shape.F32(2, 5, 24))
			b.Branch(func(v *graph.Value) *graph.Value { return v }, func() {
				attended := b.Apply(ops.Attention{Heads: 2}, qkv)
				outs = []*graph.Value{
					ops.Relu(b, ops.MatMulOf(b, x, w, false, true)), ops.SoftmaxOf(b, x), ops.Sum(b, x, false),
					ops.Tanh(b, ops.Add(b, x, x)), ops.TransposeTo(b, x, 1, 0), ops.Max(b, w, true, 0), ops.EmbeddingOf(b, w, ids),
					attended[0], b.One(ops.AttentionGrad{Heads: 2}, qkv, attended[0], attended[1], ops.Neg(b, attended[0])),
				}
			})
			return outs
		})
		guarded := *g
		for range g.Outputs {
			guarded.Needed = append(guarded.Needed, []graph.Guard{{Value: g.Inputs[0]}, {Value: g.Inputs[1], Else: true}})
		}
		plain := r.compile(g, device.CompileOptions{})
		for _, checked := range []bool{false, true} {
			exe := r.compile(&guarded, device.CompileOptions{CheckFinite: checked})
			for _, c := range [][2]float32{{1, 0}, {0, 0}, {1, 1}, {-0.5, 0}, {0, 1}, {1, float32(math.Copysign(0, -1))}} {
				if err := r.guard(&guarded, exe, plain, c[0], c[1]); err != nil {
					t.Errorf("p=%v, q=%v, checked=%v: %v", c[0], c[1], checked, err)
				}
			}
		}
		r.keptGuard()
	})
}

// keptGuard checks that a guard's number is kept until the step that asks it, though no kernel
// reads it any more.
func (r *rig) keptGuard() {
	r.t.Helper()
	var p *graph.Value
	g := Segment(r.t, func(b *graph.Builder) (outs []*graph.Value) {
		p = ops.Neg(b, b.Input("p", shape.F32(1)))
		x := b.Input("x", shape.F32(2, 3))
		shift := ops.Sum(b, p, false)
		for range 3 { // results of the guard's size
			shift = ops.Sum(b, ops.Max(b, ops.Add(b, x, shift), false, 0), false)
		}
		b.Branch(func(v *graph.Value) *graph.Value { return v }, func() { outs = append(outs, ops.Tanh(b, ops.Add(b, x, shift))) })
		return outs
	})
	g.Needed = [][]graph.Guard{{{Value: p}}}
	exe := r.compile(g, device.CompileOptions{})
	for _, number := range []float32{0, 1} {
		in, out := []device.Buffer{r.upload([]float32{number}, 1), r.upload(ramp(6, 1), 2, 3)}, r.upload(slices.Repeat([]float32{-7}, 6), 2, 3)
		r.launch(exe, in, []device.Buffer{out})
		if r.computes() && (r.get(out)[5] == -7) != (number == 0) {
			r.t.Errorf("where its guard is %v, a step leaves %v", number, r.get(out))
		}
		r.drop(append(in, out)...)
	}
}

// guard runs a graph of testGuards with the numbers of its guards, and compares it with plain,
// the graph without guards.
func (r *rig) guard(g *graph.Graph, exe, plain device.Executable, p, q float32) error {
	const untouched = -123
	met, ids := p != 0 && q == 0, r.alloc(shape.I32(3))
	if met {
		r.putBytes(ids, shape.Bytes([]int32{0, 7, 3}))
	} // else they are outside the table
	in := []device.Buffer{
		r.upload([]float32{p}), r.upload([]float32{q, 5}, 2), r.upload(ramp(32, 0.1), 4, 8), r.upload(ramp(64, 0.01), 8, 8), ids,
		r.upload(ramp(240, 0.01), 2, 5, 24),
	}
	var out []device.Buffer
	for _, v := range g.Outputs {
		out = append(out, r.upload(slices.Repeat([]float32{untouched}, v.Meta.Elems()), v.Meta.Shape...))
	}
	want := r.allocAll(graph.Metas(g.Outputs))
	defer func() { r.drop(slices.Concat(in, out, want)...) }()
	if err := r.wait(r.launch(exe, in, out)); err != nil {
		return err
	}
	if met {
		r.ok(r.wait(r.launch(plain, in, want)))
	}
	for k, v := range g.Outputs {
		switch {
		case !r.computes():
		case met && !slices.Equal(r.get(out[k]), r.get(want[k])):
			return fmt.Errorf("%v is %v, want %v", v.Node, r.get(out[k]), r.get(want[k]))
		case !met && slices.ContainsFunc(r.get(out[k]), func(f float32) bool { return f != untouched }):
			return fmt.Errorf("%v was not skipped", v.Node)
		}
	}
	return nil
}

// testBranches runs random loops and conditions in each other, forward and backward. The
// results have the bits that they have where every node runs, though the memory of those that
// are skipped is full of NaN.
func testBranches(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Threads: 2, MemoryBytes: 1 << 22}, func(r *rig) {
		skips := 0
		rapid.Check(t, func(rt *rapid.T) {
			g := randomBranches(rt)
			data := make([][]float32, len(g.Inputs))
			for i, v := range g.Inputs {
				data[i] = rapid.SliceOfN(rapid.Float32Range(-1, 1), v.Meta.Elems(), v.Meta.Elems()).Draw(rt, v.Name)
			}
			data[0][0] = rapid.SampledFrom([]float32{0, 1}).Draw(rt, "given")
			if graph.NeedsOf(g).Any() {
				skips++
			}
			alias := randomAlias(rt, g)
			got := r.results(g, alias, data)
			for _, n := range g.Nodes {
				n.Conditional = false
			}
			want := r.results(g, alias, data)
			for k, v := range g.Outputs {
				if !slices.EqualFunc(got[k], want[k], func(a, b float32) bool { return a == b || a != a && b != b }) {
					rt.Fatalf("%v is %v, want %v, in\n%s", v, got[k], want[k], nodesText(g))
				}
			}
		})
		if skips == 0 {
			t.Error("no graph has a node that may be skipped")
		}
	})
}

// nodesText lists the nodes of a graph.
func nodesText(g *graph.Graph) (s string) {
	for _, n := range g.Nodes {
		s += fmt.Sprintln(n)
	}
	return s
}

// results runs a graph, and gives the contents of its outputs; none on a device that computes
// nothing. It leaves the donations out if no order of the nodes allows them.
func (r *rig) results(g *graph.Graph, alias []int, data [][]float32) [][]float32 {
	r.t.Helper()
	x, err := r.d.Compile(g, device.CompileOptions{Alias: alias})
	if err != nil {
		alias = slices.Repeat([]int{-1}, len(alias))
		x = r.compile(g, device.CompileOptions{})
	}
	var in []device.Buffer
	for i, v := range g.Inputs {
		in = append(in, r.upload(data[i], v.Meta.Shape...))
	}
	out := r.allocAll(graph.Metas(g.Outputs))
	own := slices.Clone(out)
	for k, j := range alias {
		if j >= 0 {
			out[k] = in[j]
		}
	}
	r.launch(x, in, out)
	got := make([][]float32, len(out))
	for k := range out {
		if r.computes() {
			got[k] = r.get(out[k])
		}
	}
	r.drop(append(in, own...)...)
	return got
}

// randomBranches is a graph of a random body, and the gradients of a sum of its result. Its
// first input is a predicate.
func randomBranches(rt *rapid.T) *graph.Graph {
	b := graph.NewBuilder("branches", 1)
	given := b.Input("given", shape.F32())
	d := &brancher{t: rt, b: b, given: given, w: b.Input("w", shape.F32(3, 3))}
	x := b.Input("x", shape.F32(2, 3))
	y := d.body(b, x, 2)
	loss := ops.Sum(b, ops.Mul(b, y, y), false)
	b.Output("y", y)
	for _, v := range []*graph.Value{x, d.w} {
		parts := b.Gradients(loss, ops.Const(b, shape.F32(), 1), []*graph.Value{v}, ops.AddOp)[v]
		for i, part := range parts {
			b.Output(fmt.Sprint("d", v.Name, i), part)
		}
	}
	g, err := b.Graph()
	if err != nil {
		rt.Fatal(err)
	}
	return g
}

// brancher draws the bodies of loops and conditions.
type brancher struct {
	t        *rapid.T
	b        *graph.Builder
	given, w *graph.Value
}

// body is one to three random steps from x on; loops and conditions in it go depth deep.
func (d *brancher) body(b *graph.Builder, x *graph.Value, depth int) *graph.Value {
	for range rapid.IntRange(1, 3).Draw(d.t, "steps") {
		x = d.step(b, x, depth)
	}
	return x
}

func (d *brancher) step(b *graph.Builder, x *graph.Value, depth int) *graph.Value {
	last := 6
	if depth == 0 {
		last = 3
	}
	list := func(v *graph.Value) []*graph.Value { return []*graph.Value{v} }
	switch rapid.IntRange(0, last).Draw(d.t, "step") {
	case 0:
		return ops.Tanh(b, ops.MatMulOf(b, x, d.w, false, true))
	case 1:
		return ops.ScaleBy(b, x, 1.5)
	case 2:
		return ops.Log(b, x) // often NaN
	case 3:
		return ops.Mul(b, x, ops.SoftmaxOf(b, x))
	case 4:
		bound := rapid.IntRange(0, 4).Draw(d.t, "bound")
		return ops.While(b, bound, list(x),
			func(b *graph.Builder, c []*graph.Value) *graph.Value { return d.predicate(b, c[0]) },
			func(b *graph.Builder, c []*graph.Value) []*graph.Value { return list(d.body(b, c[0], depth-1)) })[0]
	case 5:
		body := func(b *graph.Builder, c, _ []*graph.Value) (next, y []*graph.Value) {
			return list(d.body(b, c[0], depth-1)), nil
		}
		last, _ := ops.Scan(b, list(x), nil, ops.ScanOptions{Steps: 2}, body)
		return last[0]
	}
	p := d.predicate(b, x)
	return ops.Cond(b, p, func(b *graph.Builder) []*graph.Value { return list(d.body(b, x, depth-1)) },
		func(b *graph.Builder) []*graph.Value { return list(d.body(b, x, depth-1)) })[0]
}

// predicate is a number that x decides, or none.
func (d *brancher) predicate(b *graph.Builder, x *graph.Value) *graph.Value {
	switch rapid.IntRange(0, 3).Draw(d.t, "predicate") {
	case 0:
		return d.given
	case 1:
		return ops.Const(b, shape.F32(), float64(rapid.IntRange(0, 1).Draw(d.t, "constant")))
	}
	return ops.Less(b, ops.Mean(b, ops.Abs(b, x), false), ops.Const(b, shape.F32(), rapid.Float64Range(0.2, 2).Draw(d.t, "limit")))
}
