package eager

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// dense is a layer as a function of x, weights and bias.
var dense = Compile("dense", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
	if len(in) != 3 {
		b.Fail(fmt.Errorf("%d arguments, expected 3", len(in)))
		return nil
	}
	return []*graph.Value{ops.Relu(b, ops.Add(b, b.One(ops.MatMul{}, in[0], in[1]), in[2]))}
})

func TestFunction(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x, w, bias := r.floats([]float32{1, 2}, 1, 2), r.floats([]float32{3, 4, 5, -6}, 2, 2), r.floats([]float32{1, 1}, 2)
	for range 2 {
		y := r.One(dense, x.Ref(), w.Ref(), bias.Ref())
		if m := y.Meta(); !m.Equal(shape.F32(1, 2)) {
			t.Errorf("the result is %v", m)
		}
		r.expect(y, 14, 0)
	}
	if n := r.devs[0].Stats().Launches; n != 2 {
		t.Errorf("%d launches for 2 calls", n)
	}
	fails(t, r.One(dense, x.Ref()).Err(), nil, "function_test.go:", "dense: ", "1 arguments")
	fails(t, r.One(dense, w.Ref(), x.Ref(), bias.Ref()).Err(), graph.ErrShape)
	none := Compile("none", func(*graph.Builder, []*graph.Value) []*graph.Value { return nil })
	fails(t, r.One(none).Err(), graph.ErrShape, "0 results")

	tape := r.NewTape()
	y := tape.One(dense, x.Ref(), w.Ref(), bias.Ref())
	loss := tape.One(ops.Reduce{Fn: "sum", Axes: []int{0, 1}}, tape.One(ops.AddOp, y, x.Ref()))
	grads, err := tape.Gradients(loss, x, bias)
	if err != nil {
		t.Fatal(err)
	}
	r.expect(grads[0], 3+1, 5+1)
	r.expect(grads[1], 1, 0)
	for _, a := range []Tensor{x, w, bias, loss} {
		if err := a.Release(); err != nil {
			t.Error(err)
		}
	}
	if err := tape.Close(); err != nil {
		t.Error(err)
	}
}

// A function gives the bits of its ops, one by one.
func TestFunctionsOfRandomOps(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	all := []graph.Op{ops.AddOp, ops.Binary{Fn: "div"}, ops.MatMul{TransA: true}, ops.Unary{Fn: "gelu_tanh"}, ops.Unary{Fn: "exp"}, ops.LogSoftmax{}, ops.Affine{Scale: 0.3, Shift: 1}}
	type call struct {
		op graph.Op
		in []int
	}
	rapid.Check(t, func(t2 *rapid.T) {
		var list []call
		for n := range rapid.IntRange(1, 10).Draw(t2, "ops") {
			c := call{op: rapid.SampledFrom(all).Draw(t2, "op")}
			arity := 1
			switch c.op.(type) {
			case ops.Binary, ops.MatMul:
				arity = 2
			}
			for range arity {
				c.in = append(c.in, rapid.IntRange(0, n+1).Draw(t2, "argument"))
			}
			list = append(list, c)
		}
		f := Compile("random", func(b *graph.Builder, vs []*graph.Value) []*graph.Value {
			for _, c := range list {
				var in []*graph.Value
				for _, k := range c.in {
					in = append(in, vs[k])
				}
				vs = append(vs, b.One(c.op, in...))
			}
			return vs[len(vs)-1:]
		})
		var vs []Tensor
		for range 2 {
			vs = append(vs, r.floats(rapid.SliceOfN(rapid.Float32Range(-2, 2), 25, 25).Draw(t2, "data"), 5, 5))
		}
		got := r.One(f, vs[0].Ref(), vs[1].Ref())
		own := r.One(f, r.floats(r.value(vs[0].Ref()), 5, 5), r.floats(r.value(vs[1].Ref()), 5, 5)) // in whose memory it may compute
		for _, c := range list {
			var in []Tensor
			for _, k := range c.in {
				in = append(in, vs[k].Ref())
			}
			vs = append(vs, r.One(c.op, in...))
		}
		want := shape.Bytes(r.value(vs[len(vs)-1].Ref()))
		for _, y := range []Tensor{got, own} {
			if have := shape.Bytes(r.value(y)); string(have) != string(want) {
				t2.Errorf("% x, want % x", have, want)
			}
		}
		for _, x := range vs {
			if err := x.Release(); err != nil {
				t2.Error(err)
			}
		}
	})
}

// A function in a function is expanded, and its gradients are those of a tape.
func TestFunctionsGradients(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	two := Compile("two", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		y := b.One(dense, in[0], in[1], in[2])
		return []*graph.Value{b.One(ops.Reduce{Fn: "sum", Axes: []int{0, 1}}, b.One(dense, y, in[1], in[2]))}
	})
	args := []Tensor{r.floats([]float32{1, 2}, 1, 2), r.floats([]float32{3, 4, 5, -6}, 2, 2), r.floats([]float32{1, 1}, 2)}
	refs := func() (list []Tensor) {
		for _, a := range args {
			list = append(list, a.Ref())
		}
		return list
	}
	tape := r.NewTape()
	loss := tape.One(two, refs()...)
	want, err := tape.Gradients(loss, args[1], args[0])
	if err != nil {
		t.Fatal(err)
	}
	got := r.Execute(two.Gradients(1, 0), refs()...)
	r.expect(got[0], r.value(loss)...)
	for i, g := range got[1:] {
		r.expect(g, r.value(want[i])...)
	}
	fails(t, r.One(two.Gradients(3), refs()...).Err(), ErrNoGradient, "no argument 3")
	constant := Compile("constant", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return []*graph.Value{ops.Const(b, in[0].Meta, 1)}
	})
	fails(t, r.One(constant.Gradients(0), refs()...).Err(), ErrNoGradient, "does not depend on argument 0")
	for _, a := range args {
		if err := a.Release(); err != nil {
			t.Error(err)
		}
	}
	if err := tape.Close(); err != nil {
		t.Error(err)
	}
}

// A function that consumes the last references computes in their memory, and with the same
// bits. A step of a training so updates its weights in place.
func TestFunctionsDonation(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	step := Compile("step", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		h := b.One(ops.MatMul{}, in[0], in[1])
		return []*graph.Value{ops.Sub(b, in[1], h), ops.Relu(b, in[0]), ops.Add(b, h, in[1])}
	})
	x, w := r.floats([]float32{1, -2, 3, 4}, 2, 2), r.floats([]float32{5, 6, 7, 8}, 2, 2)
	want := r.Execute(step, x.Ref(), w.Ref())
	for _, y := range want {
		if err := y.Wait(bg); err != nil {
			t.Fatal(err)
		}
	}
	e := entryOf(t, r, step)
	if got, want := fmt.Sprint(e.alias), "[-1 0 -1]"; got != want { // in[1] is read after its update
		t.Errorf("the results take over %s, expected %s", got, want)
	}
	got := r.Execute(step, x, w)
	for k := range got {
		r.expect(got[k], r.value(want[k])...)
	}
}

// entryOf is the only entry of a function.
func entryOf(t *testing.T, r *rig, f *Function) *entry {
	t.Helper()
	for _, e := range r.lanes[0].cache.entries {
		if e.op == graph.Op(f) {
			return e
		}
	}
	t.Fatal("the function has no entry")
	return nil
}

func TestPanicInFunction(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.One(Compile("halves", func(b *graph.Builder, in []*graph.Value) []*graph.Value { return in[: len(in)+1 : 1] }), r.floats([]float32{1}, 1))
	fails(t, x.Err(), nil, "the op halves panicked", "out of range", "function_test.go:")
	if strings.Contains(x.Err().Error(), "\n") {
		t.Errorf("an error of many lines: %v", x.Err())
	}
}

// Cancel ends the building of a function.
func TestCancelWhileBuilding(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	iterations := 0
	long := Compile("long", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		last, _ := ops.Scan(b, in, nil, ops.ScanOptions{Steps: ops.MaxIterations}, func(b *graph.Builder, c, _ []*graph.Value) (next, y []*graph.Value) {
			if iterations++; iterations == 2 {
				r.Cancel(nil)
			}
			return []*graph.Value{ops.Relu(b, c[0])}, nil
		})
		return last
	})
	fails(t, r.One(long, r.floats([]float32{1}, 1)).Err(), ErrCanceled, "function_test.go:", "long: canceled")
	if iterations > ops.MaxIterations/4 {
		t.Errorf("%d iterations were built", iterations)
	}
	r.Restart()
}

// A function may return its arguments, and one value twice: each result is a tensor of its own.
func TestFunctionThatReturnsItsArguments(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	same := Compile("same", func(b *graph.Builder, in []*graph.Value) []*graph.Value { return in })
	twice := Compile("twice", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		y := ops.ScaleBy(b, in[0], 1) // in[0] itself
		z := b.Apply(same, ops.Square(b, y))[0]
		return []*graph.Value{y, z, z}
	})
	none := Compile("none", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return ops.While(b, 0, in, func(b *graph.Builder, c []*graph.Value) *graph.Value { return ops.Sum(b, c[0], false) }, nil)
	})
	x := r.floats([]float32{1, -2}, 2)
	for _, arg := range []Tensor{x.Ref(), x} { // the last one gives its memory to a result
		y := r.Execute(twice, arg)
		r.expect(r.One(ops.Affine{Scale: 2}, y[0]), 2, -4)
		r.expect(r.One(ops.Affine{Scale: 3}, y[1]), 3, 12)
		r.expect(y[2], 1, 4)
	}
	id := r.One(same, r.ints([]int32{7}, 1))
	if d, err := id.ToHost(bg); err != nil || d.Int32s()[0] != 7 || id.Release() != nil {
		t.Errorf("%v, %v", d, err)
	}
	a := r.floats([]float32{3}, 1)
	out := r.Execute(none.Gradients(0), a.Ref())
	r.expect(out[0], 3)
	r.expect(out[1], 1)
	r.expect(a, 3)
}

// A frozen op is the op that it was made of: the same bits, gradients and errors. Its
// calls allocate nothing.
func TestFreeze(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	flip := Freeze(ops.Transpose{Perm: []int{1, 0}})
	x := r.floats([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	y := r.One(flip, x.Ref())
	if m := y.Meta(); m.Shape[0] != 3 {
		t.Error(m)
	}
	r.expect(y, 1, 4, 2, 5, 3, 6)
	fails(t, r.One(flip, r.floats([]float32{1}, 1)).Err(), graph.ErrShape, "transpose: ")
	back := Compile("back", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return []*graph.Value{b.One(flip, b.One(flip, in[0]))}
	})
	r.expect(r.One(back, x.Ref()), 1, 2, 3, 4, 5, 6)

	tape := r.NewTape()
	loss := tape.One(Freeze(ops.Reduce{Fn: "sum", Axes: []int{0, 1}}), tape.One(ops.Binary{Fn: "mul"}, tape.One(flip, x.Ref()), tape.One(flip, x.Ref())))
	grads, err := tape.Gradients(loss, x)
	if err != nil {
		t.Fatal(err)
	}
	r.expect(grads[0], 2, 4, 6, 8, 10, 12)
	if err := errors.Join(tape.Close(), loss.Release()); err != nil {
		t.Error(err)
	}
	z := r.floats(make([]float32, 16), 4, 4)
	for range 5 {
		z = r.One(flip, z)
	}
	if err := z.Wait(bg); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { z = r.One(flip, z) }); n > 0 {
		t.Errorf("%v allocations for a call", n)
	}
	if err := errors.Join(x.Release(), z.Release()); err != nil {
		t.Error(err)
	}
}

// The first number that is not finite fails the op that makes it.
func TestCheckFinite(t *testing.T) {
	r := open(t, 1, ContextOptions{CheckFinite: true})
	x := r.floats([]float32{1, 0, 4}, 3)
	for range 3 { // queued, and at once
		y := r.One(ops.Binary{Fn: "div"}, x.Ref(), x.Ref())
		z := r.One(ops.AddOp, y.Ref(), y.Ref())
		fails(t, z.Wait(bg), nil, "function_test.go:", "div: ", "not finite", "element 1")
		r.expect(r.One(ops.AddOp, x.Ref(), x.Ref()), 2, 0, 8)
		if err := errors.Join(y.Release(), z.Release()); err != nil {
			t.Error(err)
		}
	}
	_ = x.Release()
}

// gated is x * sigmoid(Scale x), of parts.
type gated struct{ Scale float64 }

func (gated) Kind() string { return "gated" }

func (o gated) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value {
	return []*graph.Value{ops.Mul(b, in[0], ops.Sigmoid(b, ops.ScaleBy(b, in[0], o.Scale)))}
}

// tripled is a gated whose gradient is said to be 3 dy.
type tripled struct{ gated }

func (tripled) Grad(b *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{ops.ScaleBy(b, dy[0], 3)}
}

func TestCompositeOpByOp(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	for _, scale := range []float64{0, 2, 0} {
		x := r.floats([]float32{8, 0}, 2)
		r.expect(r.One(graph.Compose(gated{scale}), x), map[float64][]float32{0: {4, 0}, 2: {8 / (1 + 1.1253517e-07), 0}}[scale]...)
	}
	type closure struct {
		gated
		F func()
	}
	fails(t, r.One(graph.Compose(closure{}), r.floats([]float32{1}, 1)).Err(), nil, "field F", "use numbers")

	tape := r.NewTape()
	x := r.floats([]float32{0, 0}, 2)
	y := tape.One(graph.Compose(tripled{}), x.Ref())
	z := tape.One(graph.Compose(gated{}), y)
	grads, err := tape.Gradients(z, x)
	if err != nil {
		t.Fatal(err)
	}
	r.expect(grads[0], 1.5, 1.5)
	r.expect(z, 0, 0)
	r.expect(x, 0, 0)
	if err := tape.Close(); err != nil {
		t.Error(err)
	}
}

// A loop in a function gives the bits of its steps as single calls, and gradients that
// agree with those of a tape.
func TestLoopsInFunctions(t *testing.T) {
	const steps, rows, width = 5, 2, 3
	r := open(t, 1, ContextOptions{})
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Sin(float64(i*i + n)))
		}
		return x
	}
	h, w, xs := r.floats(numbers(rows*width), rows, width), r.floats(numbers(width*width), width, width), r.floats(numbers(steps*rows*width), steps, rows, width)
	loop := Compile("loop", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		last, _ := ops.Scan(b, in[:1], in[2:], ops.ScanOptions{}, func(b *graph.Builder, c, x []*graph.Value) (next, y []*graph.Value) {
			return []*graph.Value{ops.Tanh(b, ops.Add(b, ops.MatMulOf(b, c[0], in[1], false, false), x[0]))}, nil
		})
		return last
	})
	tape := r.NewTape()
	state := h.Ref()
	for k := range steps {
		x := tape.One(ops.Slice{Start: []int{k, 0, 0}, Stop: []int{k + 1, rows, width}}, xs.Ref())
		x = tape.One(ops.Reshape{Shape: []int{rows, width}}, x)
		state = tape.One(ops.Unary{Fn: "tanh"}, tape.One(ops.AddOp, tape.One(ops.MatMul{}, state, w.Ref()), x))
	}
	want, err := tape.Gradients(state, h, w, xs)
	if err != nil {
		t.Fatal(err)
	}
	if err := tape.Close(); err != nil {
		t.Error(err)
	}
	got := r.Execute(loop.Gradients(0, 1, 2), h, w, xs)
	r.expect(got[0], r.value(state)...)
	for i, g := range got[1:] {
		a, b := r.value(g), r.value(want[i])
		for j := range a {
			if math.Abs(float64(a[j]-b[j])) > 1e-6 {
				t.Errorf("gradient %d at %d is %v, with a tape %v", i, j, a[j], b[j])
			}
		}
	}
}

// computed counts the calls of counted.
var computed atomic.Int64

// counted copies its input, and counts.
type counted struct{}

func (counted) Kind() string { return "counted" }

func (counted) Infer(in []shape.Meta) ([]shape.Meta, error) { return in, nil }

func (counted) Grad(b *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return b.Apply(counted{}, dy[0])
}

func (counted) Cost(in, out []shape.Meta) graph.Cost { return ops.CostPerElement(1, in, out) }

func (counted) Compute(in, out []graph.Tensor) error {
	computed.Add(1)
	copy(out[0].F, in[0].F)
	return nil
}

// A function whose loop ends after 3 of 50 iterations computes 3, and its gradients 3 more.
func TestFunctionThatEndsEarly(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	doubled := Compile("doubled", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		return ops.While(b, 50, in,
			func(b *graph.Builder, c []*graph.Value) *graph.Value {
				return ops.Less(b, ops.Sum(b, c[0], false), ops.Const(b, shape.F32(), 7))
			},
			func(b *graph.Builder, c []*graph.Value) []*graph.Value {
				return []*graph.Value{ops.ScaleBy(b, b.One(counted{}, c[0]), 2)}
			})
	})
	x := r.floats([]float32{1}, 1)
	computed.Store(0)
	r.expect(r.One(doubled, x.Ref()), 8)
	if n := computed.Load(); n != 3 {
		t.Errorf("%d iterations were computed, want 3", n)
	}
	computed.Store(0)
	out := r.Execute(doubled.Gradients(0), x)
	r.expect(out[0], 8)
	r.expect(out[1], 8)
	if n := computed.Load(); n != 6 {
		t.Errorf("%d iterations were computed forward and backward, want 6", n)
	}
}
