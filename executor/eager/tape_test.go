package eager

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestGradients(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x, w := r.floats([]float32{1, 2, 3, 4}, 2, 2), r.floats([]float32{5, 6}, 2, 1)
	tape := r.NewTape()
	y := tape.One(ops.MatMul{}, x.Ref(), w.Ref())
	square := tape.One(ops.Binary{Fn: "mul"}, y.Ref(), y.Ref()) // one tensor read twice
	loss := tape.One(ops.Reduce{Fn: "sum", Axes: []int{0, 1}}, square)
	grads, err := tape.Gradients(loss, w, x)
	if err != nil {
		t.Fatal(err)
	}
	r.expect(loss.Ref(), 17*17+39*39)
	r.expect(grads[0], 2*17+2*39*3, 2*17*2+2*39*4) // 2 xᵀ(xw)
	r.expect(grads[1], 2*17*5, 2*17*6, 2*39*5, 2*39*6)

	z := r.floats([]float32{1}, 1)
	_, err = tape.Gradients(loss, z)
	fails(t, err, ErrNoGradient, "tape_test.go:", "tensor 0")
	_, err = tape.Gradients(z, x)
	fails(t, err, ErrNoGradient, "the loss is not")
	other := tape.One(ops.Unary{Fn: "neg"}, z.Ref())
	_, err = tape.Gradients(loss, z)
	fails(t, err, ErrNoGradient, "does not depend on tensor 0")

	bad := tape.One(ops.AddOp, x.Ref(), r.floats(make([]float32, 3), 3))
	fails(t, bad.Err(), graph.ErrShape, "tape_test.go:")
	for _, a := range []Tensor{x, w, y, loss, z, other} {
		if err := a.Release(); err != nil {
			t.Error(err)
		}
	}
	if err := tape.Close(); err != nil {
		t.Error(err)
	}
}

// A tape's gradients are those of the graph, run node by node, bit for bit.
func TestGradientsOfRandomCalls(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	rapid.Check(t, func(t2 *rapid.T) {
		b := graph.NewBuilder("random", 1)
		tape := r.NewTape()
		var tensors []Tensor
		var values []*graph.Value
		for range 3 {
			data := rapid.SliceOfN(rapid.Float32Range(-2, 2), 9, 9).Draw(t2, "data")
			tensors, values = append(tensors, r.floats(data, 3, 3)), append(values, b.Input("x", shape.F32(3, 3)))
		}
		for range rapid.IntRange(1, 8).Draw(t2, "calls") {
			op := rapid.SampledFrom([]graph.Op{ops.AddOp, ops.Binary{Fn: "mul"}, ops.MatMul{TransB: true}, ops.Unary{Fn: "tanh"}, ops.Softmax{}}).Draw(t2, "op")
			arity := 2
			switch op.(type) {
			case ops.Unary, ops.Softmax:
				arity = 1
			}
			var in []Tensor
			var of []*graph.Value
			for range arity {
				k := rapid.IntRange(0, len(tensors)-1).Draw(t2, "argument")
				in, of = append(in, tensors[k].Ref()), append(of, values[k])
			}
			tensors, values = append(tensors, tape.One(op, in...)), append(values, b.One(op, of...))
		}
		last := len(tensors) - 1
		parts := b.Gradients(values[last], b.One(ops.Fill{Meta: shape.F32(3, 3), Value: 1}), values[:3], ops.AddOp)
		for i, v := range values[:3] {
			got, err := tape.Gradients(tensors[last], tensors[i])
			if len(parts[v]) == 0 {
				fails(t, err, ErrNoGradient)
				continue
			}
			if err != nil {
				t2.Fatal(err)
			}
			b.Output("gradient", sum(b, parts[v]))
			want := r.byNode(b, values[:3], tensors[:3])
			r.expect(got[0], want...)
			if got, err = tape.Gradients(tensors[last], tensors[i]); err != nil { // compiled
				t2.Fatal(err)
			}
			r.expect(got[0], want...)
		}
		for _, x := range tensors {
			if err := x.Release(); err != nil {
				t2.Error(err)
			}
		}
		if err := tape.Close(); err != nil {
			t2.Error(err)
		}
	})
}

// byNode is the newest output of a graph, computed node by node from its inputs.
func (r *rig) byNode(b *graph.Builder, in []*graph.Value, tensors []Tensor) []float32 {
	g, err := b.Graph()
	if err != nil {
		r.t.Fatal(err)
	}
	now := map[*graph.Value]Tensor{}
	for i, v := range in {
		now[v] = tensors[i].Ref()
	}
	for _, n := range g.Nodes {
		var args []Tensor
		for _, v := range n.In {
			args = append(args, now[v].Ref())
		}
		for k, x := range r.Execute(n.Op, args...) {
			now[n.Out[k]] = x
		}
	}
	out := g.Outputs[len(g.Outputs)-1]
	defer func() {
		for _, x := range now {
			if err := x.Release(); err != nil {
				r.t.Error(err)
			}
		}
	}()
	return r.value(now[out].Ref())
}

// A gradient that a recorded call reads has gradients in its turn, also a further time, and a gradient may be the
// loss. A second tape with the same calls finds the same plans, and runs them compiled.
func TestGradientsOfGradients(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	mul := ops.Binary{Fn: "mul"}
	for range 3 {
		x, y := r.floats([]float32{2, 3}, 2), r.floats([]float32{5, 7}, 2)
		tape := r.NewTape()
		cube := tape.One(mul, tape.One(mul, x.Ref(), x.Ref()), x.Ref())
		loss := tape.One(mul, cube, y.Ref()) // x³y
		first, err := tape.Gradients(loss, x, y)
		if err != nil {
			t.Fatal(err)
		}
		penalty := tape.One(ops.AddOp, tape.One(mul, first[0].Ref(), first[0].Ref()), loss.Ref()) // (3x²y)² + x³y
		second, err := tape.Gradients(penalty, x, y)
		if err != nil {
			t.Fatal(err)
		}
		third, err := tape.Gradients(first[1], x) // of x³
		if err != nil {
			t.Fatal(err)
		}
		fourth, err := tape.Gradients(third[0], x)
		if err != nil {
			t.Fatal(err)
		}
		r.expect(first[0], 3*4*5, 3*9*7)
		r.expect(first[1], 8, 27)
		r.expect(second[0], 36*8*25+3*4*5, 36*27*49+3*9*7) // 36x³y² + 3x²y
		r.expect(second[1], 18*16*5+8, 18*81*7+27)         // 18x⁴y + x³
		r.expect(third[0], 12, 27)
		r.expect(fourth[0], 12, 18)
		if err := errors.Join(x.Release(), y.Release(), loss.Release(), penalty.Release(), tape.Close()); err != nil {
			t.Error(err)
		}
	}
	if n := r.plans.size; n != 4 {
		t.Errorf("%d plans for three equal tapes, expected 4", n)
	}
}

// Where the rule of a gradient is an op without one, the error names the op, in place of gradients that lack a part. A
// gradient that only a call without a tape reads stays a constant.
func TestGradientsOfGradientsRefused(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, 2}, 2)
	tape := r.NewTape()
	loss := tape.One(ops.Unary{Fn: "tanh"}, x.Ref())
	slopes, err := tape.Gradients(loss, x)
	if err != nil {
		t.Fatal(err)
	}
	mixed := tape.One(ops.AddOp, loss.Ref(), slopes[0].Ref())
	_, err = tape.Gradients(mixed, x)
	fails(t, err, ops.ErrNoGradient, "tape_test.go:", "tanh_grad is itself a gradient")
	constant := r.One(ops.Affine{Scale: 1}, slopes[0].Ref())
	sum := tape.One(ops.AddOp, loss.Ref(), constant)
	again, err := tape.Gradients(sum, x)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.value(again[0]), r.value(slopes[0].Ref()); got[0] != want[0] || got[1] != want[1] {
		t.Errorf("the gradient is %v, expected %v", got, want)
	}
	if err := slopes[0].Release(); err != nil {
		t.Error(err)
	}
	_, err = tape.Gradients(slopes[0], x) // the tape has it still
	fails(t, err, ops.ErrNoGradient, "tanh_grad")
	if err := errors.Join(x.Release(), loss.Release(), mixed.Release(), sum.Release(), tape.Close()); err != nil {
		t.Error(err)
	}
}

// counting is a handler that counts calls.
type counting struct {
	next  Handler
	calls *int
}

func (h counting) Execute(inv *Invocation) {
	*h.calls++
	h.next.Execute(inv)
}

// Gradients asked for again take one call: nothing that was computed for others runs with
// them.
func TestGradientsAgain(t *testing.T) {
	calls := 0
	r := open(t, 1, ContextOptions{Handler: func(next Handler) Handler {
		return counting{next, &calls}
	}})
	x := r.floats([]float32{2}, 1)
	tape := r.NewTape()
	loss := tape.One(ops.Binary{Fn: "mul"}, x.Ref(), x.Ref())
	for i := range 3 {
		calls = 0
		grads, err := tape.Gradients(loss, x)
		if err != nil {
			t.Fatal(err)
		}
		r.expect(grads[0], 4)
		if want := []int{4, 1, 1}[i]; calls != want {
			t.Errorf("gradients %d took %d calls, expected %d", i+1, calls, want)
		}
	}
	if err := errors.Join(x.Release(), loss.Release(), tape.Close()); err != nil {
		t.Error(err)
	}
}
