package ops_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// loopProbe is a graph under test, with the contents of its inputs.
type loopProbe struct {
	b    *graph.Builder
	feed map[*graph.Value]ref.Array
}

func newLoopProbe() *loopProbe {
	return &loopProbe{graph.NewBuilder("loop", 1), map[*graph.Value]ref.Array{}}
}

func (p *loopProbe) input(a ref.Array) *graph.Value {
	v := p.b.Input("in", a.Meta)
	p.feed[v] = a
	return v
}

// grads are the whole gradients of a sum of values weighted by their position.
func (p *loopProbe) grads(ys []*graph.Value, wrt ...*graph.Value) (loss *graph.Value, grads []*graph.Value) {
	loss = ops.Const(p.b, shape.F32(), 0)
	for i, y := range ys {
		loss = ops.Add(p.b, loss, ops.ScaleBy(p.b, ops.Sum(p.b, ops.Mul(p.b, y, y), false), float64(i+1)))
	}
	parts := p.b.Gradients(loss, ops.Const(p.b, shape.F32(), 1), wrt, ops.AddOp)
	for _, v := range wrt {
		sum := parts[v][0]
		for _, d := range parts[v][1:] {
			sum = ops.Add(p.b, sum, d)
		}
		grads = append(grads, sum)
	}
	return loss, grads
}

// eval computes values.
func (p *loopProbe) eval(t rapid.TB, vs ...*graph.Value) []ref.Array {
	t.Helper()
	for _, v := range vs {
		p.b.Output("out", v)
	}
	g, err := p.b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	all, err := ref.Eval(g, p.feed)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]ref.Array, len(vs))
	for i, v := range vs {
		out[i] = all[v]
	}
	return out
}

// cell is a body with two carries, a weight and a bias from outside, and two rows.
func cell(w, bias *graph.Value) ops.ScanBody {
	return func(b *graph.Builder, c, x []*graph.Value) (next, y []*graph.Value) {
		h := ops.Tanh(b, ops.Add(b, ops.Add(b, ops.MatMulOf(b, c[0], w, false, true), x[0]), bias))
		m := ops.Add(b, ops.Mul(b, c[1], x[1]), h)
		return []*graph.Value{h, m}, []*graph.Value{m, ops.Sum(b, h, false)}
	}
}

// A scan gives the bits of its body written out, and gradients that agree with those of
// the body written out and with finite differences.
func TestScanIsItsBodyWrittenOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps, rows, width := num(t, 1, 5, "steps"), num(t, 1, 3, "rows"), num(t, 1, 4, "width")
		o := ops.ScanOptions{Reverse: rapid.Bool().Draw(t, "reverse")}
		var in []ref.Array
		for _, s := range [][]int{{rows, width}, {rows, width}, {steps, rows, width}, {steps, rows, width}, {width, width}, {width}} {
			in = append(in, signed(t, s...))
		}
		run := func(unrolled bool) (loss float64, out, grads []ref.Array) {
			p := newLoopProbe()
			var v []*graph.Value
			for _, a := range in {
				v = append(v, p.input(a))
			}
			scan := func() (last, ys []*graph.Value) { return ops.Scan(p.b, v[:2], v[2:4], o, cell(v[4], v[5])) }
			if unrolled {
				scan = func() (last, ys []*graph.Value) { return written(p.b, v[:2], v[2:4], o, cell(v[4], v[5])) }
			}
			last, ys := scan()
			all := append(append([]*graph.Value{}, last...), ys...)
			sum, d := p.grads(all, v...)
			got := p.eval(t, append(append([]*graph.Value{sum}, all...), d...)...)
			return got[0].F[0], got[1 : 1+len(all)], got[1+len(all):]
		}
		_, out, grads := run(false)
		k := num(t, 0, len(in)-1, "differentiated")
		_, wantOut, wantGrads := run(true)
		for i := range out {
			same(t, out[i], wantOut[i], 0)
		}
		for i := range grads {
			same(t, grads[i], wantGrads[i], 1e-12)
			if i != k {
				continue
			}
			j := num(t, 0, len(in[i].F)-1, "element")
			old := in[i].F[j]
			in[i].F[j] = old + 1e-6
			up, _, _ := run(false)
			in[i].F[j] = old - 1e-6
			down, _, _ := run(false)
			in[i].F[j] = old
			if want := (up - down) / 2e-6; math.Abs(grads[i].F[j]-want) > 1e-5*(1+math.Abs(want)) {
				t.Fatalf("gradient %d at %d is %v, finite difference %v", i, j, grads[i].F[j], want)
			}
		}
	})
}

// written is a scan without one.
func written(b *graph.Builder, c, xs []*graph.Value, o ops.ScanOptions, body ops.ScanBody) (last, ys []*graph.Value) {
	steps := xs[0].Meta.Shape[0]
	rows := make([][]*graph.Value, steps)
	for k := range steps {
		if o.Reverse {
			k = steps - 1 - k
		}
		var x []*graph.Value
		for _, v := range xs {
			s := v.Meta.Shape
			x = append(x, ops.ReshapeTo(b, ops.SliceOf(b, v, []int{k, 0, 0}, []int{k + 1, s[1], s[2]}), s[1:]...))
		}
		c, rows[k] = body(b, c, x)
	}
	for i := range rows[0] {
		var parts []*graph.Value
		for _, y := range rows {
			parts = append(parts, ops.ReshapeTo(b, y[i], append([]int{1}, y[i].Meta.Shape...)...))
		}
		ys = append(ys, ops.ConcatOf(b, 0, parts...))
	}
	return c, ys
}

func same(t rapid.TB, got, want ref.Array, tolerance float64) {
	t.Helper()
	if !got.Meta.Equal(want.Meta) {
		t.Fatalf("%v, want %v", got.Meta, want.Meta)
	}
	for i := range want.F {
		if d := math.Abs(got.F[i] - want.F[i]); !(d <= tolerance*(1+math.Abs(want.F[i]))) {
			t.Fatalf("element %d is %v, want %v", i, got.F[i], want.F[i])
		}
	}
}

// kinds counts the nodes of a graph by kind.
func kinds(t *testing.T, b *graph.Builder) map[string]int {
	t.Helper()
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, n := range g.Nodes {
		count[n.Op.Kind()]++
	}
	return count
}

// The gradient of a weight is one product for all iterations, also through a condition
// and a loop in a loop; that of a row is no sum of whole tensors.
func TestScanHasOneGradientProductForEachWeight(t *testing.T) {
	const steps = 6
	b := graph.NewBuilder("scan", 1)
	w, xs, c := b.Input("w", shape.F32(4, 4)), b.Input("xs", shape.F32(steps, 3, 4)), b.Input("c", shape.F32(3, 4))
	p := b.Input("p", shape.F32())
	last, _ := ops.Scan(b, []*graph.Value{c}, []*graph.Value{xs}, ops.ScanOptions{}, func(b *graph.Builder, c, x []*graph.Value) (next, y []*graph.Value) {
		y = ops.Cond(b, p, func(b *graph.Builder) []*graph.Value {
			inner, _ := ops.Scan(b, []*graph.Value{ops.Add(b, c[0], x[0])}, nil, ops.ScanOptions{Steps: 2}, func(b *graph.Builder, c, _ []*graph.Value) (next, y []*graph.Value) {
				return []*graph.Value{ops.Tanh(b, ops.MatMulOf(b, c[0], w, false, true))}, nil
			})
			return inner
		}, func(b *graph.Builder) []*graph.Value { return c })
		return y, nil
	})
	loss := ops.Sum(b, last[0], false)
	grads := b.Gradients(loss, ops.Const(b, shape.F32(), 1), []*graph.Value{w, xs}, ops.AddOp)
	if len(grads[w]) != 1 || len(grads[xs]) != 1 {
		t.Fatalf("%d and %d gradients, want 1 each", len(grads[w]), len(grads[xs]))
	}
	b.Output("dw", grads[w][0])
	b.Output("dxs", grads[xs][0])
	count := kinds(t, b)
	if got, want := count["matmul"], 2*steps*2+1; got != want {
		t.Errorf("%d products, want %d: two forward and two back an iteration, and one", got, want)
	}
	if count["slice_grad"] > 0 {
		t.Errorf("%d whole tensors for the gradients of rows, want none", count["slice_grad"])
	}
}

// A while loop stops where its test says so, and not later than its bound.
func TestWhileStopsAtItsTest(t *testing.T) {
	for limit, want := range map[float64]float64{1: 1, 5: 8, 100: 64} {
		p := newLoopProbe()
		x := p.input(ref.Floats([]float64{1, 1}, 2))
		last := ops.While(p.b, 6, []*graph.Value{x},
			func(b *graph.Builder, c []*graph.Value) *graph.Value {
				return ops.Less(b, ops.Mean(b, c[0], false), ops.Const(b, shape.F32(), limit))
			},
			func(b *graph.Builder, c []*graph.Value) []*graph.Value {
				return []*graph.Value{ops.ScaleBy(b, c[0], 2)}
			})
		sum := ops.Sum(p.b, last[0], false)
		d := p.b.Gradients(sum, ops.Const(p.b, shape.F32(), 1), []*graph.Value{x}, ops.AddOp)[x]
		got := p.eval(t, last[0], d[0])
		if got[0].F[0] != want || got[1].F[1] != want {
			t.Errorf("below %v: %v with the gradient %v, want %v", limit, got[0].F[0], got[1].F[1], want)
		}
	}
}

// NaN and Inf of the branch that is not chosen reach no value and no gradient, those of
// weights and of values that both branches read included.
func TestCondLetsNothingOfTheOtherBranchOut(t *testing.T) {
	for _, chosen := range []float64{1, 0} {
		p := newLoopProbe()
		x, w := p.input(ref.Floats([]float64{-1, 0}, 1, 2)), p.input(ref.Floats([]float64{2, 3, 4, 5}, 2, 2))
		is := p.input(ref.Floats([]float64{chosen}))
		sane := func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.Mul(b, ops.MatMulOf(b, x, w, false, false), x)}
		}
		bad := func(b *graph.Builder) []*graph.Value { // logarithms of -1 and 0, and their products
			return []*graph.Value{ops.MatMulOf(b, ops.Log(b, x), ops.Div(b, w, ops.Sqrt(b, ops.Sub(b, w, w))), false, false)}
		}
		y := ops.Cond(p.b, is, sane, bad)
		if chosen == 0 {
			y = ops.Cond(p.b, is, bad, sane)
		}
		plain := newLoopProbe()
		px, pw := plain.input(p.feed[x]), plain.input(p.feed[w])
		py := ops.Mul(plain.b, ops.MatMulOf(plain.b, px, pw, false, false), px)
		loss, d := p.grads(y, x, w)
		want, wantD := plain.grads([]*graph.Value{py}, px, pw)
		got, expected := p.eval(t, append(d, loss)...), plain.eval(t, append(wantD, want)...)
		for i := range got {
			same(t, got[i], expected[i], 0)
		}
	}
}

// The gradient of a weight that a branch declares itself is 0 where the branch is not
// chosen, also where the branch computes NaN.
func TestCondGuardsWeightsThatABranchDeclares(t *testing.T) {
	p := newLoopProbe()
	x, is := p.input(ref.Floats([]float64{-1, 4}, 2)), p.input(ref.Floats([]float64{0}))
	var w *graph.Value
	y := ops.Cond(p.b, is, func(b *graph.Builder) []*graph.Value {
		w = b.Var("w", x.Meta, graph.Parameter, graph.Init{})
		p.feed[w] = ref.Floats([]float64{0, 3}, 2)
		return []*graph.Value{ops.Log(b, ops.Mul(b, w, x))}
	}, func(*graph.Builder) []*graph.Value { return []*graph.Value{x} })
	_, d := p.grads(y, w)
	same(t, p.eval(t, d[0])[0], ref.Floats([]float64{0, 0}, 2), 0)
}

func TestLoopsRefuseWhatDoesNotFit(t *testing.T) {
	type vs = []*graph.Value
	keep := func(_ *graph.Builder, c, x []*graph.Value) (next, y []*graph.Value) { return c, x }
	for want, build := range map[string]func(b *graph.Builder, x *graph.Value){
		"scan: input 0 is f32[]": func(b *graph.Builder, x *graph.Value) {
			ops.Scan(b, nil, vs{ops.Sum(b, x, false)}, ops.ScanOptions{}, keep)
		},
		"it needs at least one row": func(b *graph.Builder, x *graph.Value) {
			_, ys := ops.Scan(b, nil, vs{ops.SliceOf(b, x, []int{0, 0}, []int{0, 2})}, ops.ScanOptions{}, keep)
			ops.Relu(b, ys[0])
		},
		"expected first axes of one length": func(b *graph.Builder, x *graph.Value) {
			ops.Scan(b, nil, vs{x, ops.TransposeTo(b, x, 1, 0)}, ops.ScanOptions{}, keep)
		},
		"2 steps over an input": func(b *graph.Builder, x *graph.Value) {
			ops.Scan(b, nil, vs{x}, ops.ScanOptions{Steps: 2}, keep)
		},
		"scan: -1 iterations: give 0 to 16384": func(b *graph.Builder, x *graph.Value) {
			ops.Scan(b, vs{x}, nil, ops.ScanOptions{Steps: -1}, keep)
		},
		"scan: 1099511627776 iterations": func(b *graph.Builder, x *graph.Value) {
			ops.Scan(b, vs{x}, nil, ops.ScanOptions{Steps: 1 << 40}, keep)
		},
		"while: 16385 iterations": func(b *graph.Builder, x *graph.Value) {
			ops.While(b, ops.MaxIterations+1, vs{x}, func(b *graph.Builder, c []*graph.Value) *graph.Value { return ops.Sum(b, c[0], false) },
				func(_ *graph.Builder, c []*graph.Value) []*graph.Value { return c })
		},
		"returns 0 carry values, expected 1": func(b *graph.Builder, x *graph.Value) {
			ops.Scan(b, vs{x}, vs{x}, ops.ScanOptions{}, func(*graph.Builder, []*graph.Value, []*graph.Value) (next, y []*graph.Value) { return nil, nil })
		},
		"carry value 0 that the body returns is f32[2], expected f32[3,2]": func(b *graph.Builder, x *graph.Value) {
			ops.Scan(b, vs{x}, vs{x}, ops.ScanOptions{}, func(_ *graph.Builder, _, x []*graph.Value) (next, y []*graph.Value) { return x, nil })
		},
		"the predicate is f32[3,2], expected one number": func(b *graph.Builder, x *graph.Value) {
			ops.Cond(b, x, func(*graph.Builder) []*graph.Value { return vs{x} }, func(*graph.Builder) []*graph.Value { return vs{x} })
		},
		"the branches return f32[3,2] and nil as value 0": func(b *graph.Builder, x *graph.Value) {
			ops.Cond(b, ops.Sum(b, x, true), func(*graph.Builder) []*graph.Value { return vs{x} }, func(*graph.Builder) []*graph.Value { return vs{nil} })
		},
		"return 1 and 0 values": func(b *graph.Builder, x *graph.Value) {
			ops.Cond(b, ops.Sum(b, x, false), func(*graph.Builder) []*graph.Value { return vs{x} }, func(*graph.Builder) []*graph.Value { return nil })
		},
	} {
		b := graph.NewBuilder("test", 1)
		build(b, b.Input("x", shape.F32(3, 2)))
		if err := b.Err(); !errors.Is(err, graph.ErrShape) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
