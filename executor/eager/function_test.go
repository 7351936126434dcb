package eager

import (
	"fmt"
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
	for _, a := range []*Tensor{x, w, bias, loss} {
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
		var vs []*Tensor
		for range 2 {
			vs = append(vs, r.floats(rapid.SliceOfN(rapid.Float32Range(-2, 2), 25, 25).Draw(t2, "data"), 5, 5))
		}
		got := r.One(f, vs[0].Ref(), vs[1].Ref())
		for _, c := range list {
			var in []*Tensor
			for _, k := range c.in {
				in = append(in, vs[k].Ref())
			}
			vs = append(vs, r.One(c.op, in...))
		}
		want := shape.Bytes(r.value(vs[len(vs)-1].Ref()))
		if have := shape.Bytes(r.value(got)); string(have) != string(want) {
			t2.Errorf("% x, want % x", have, want)
		}
		for _, x := range vs {
			if err := x.Release(); err != nil {
				t2.Error(err)
			}
		}
	})
}
