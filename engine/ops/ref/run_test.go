package ref_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

func scalar(f float64) ref.Array { return ref.Floats([]float64{f}) }
func count(i int32) ref.Array    { return ref.Ints([]int32{i}) }

func compute(t *testing.T, op graph.Op, in ...ref.Array) []ref.Array {
	t.Helper()
	out, err := ref.Run(op, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	ok := slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(1+math.Abs(b)) })
	if !ok {
		t.Errorf("%s is %v, expected %v", what, got, want)
	}
}

// Values by hand, or known to many digits.
func TestValues(t *testing.T) {
	x := ref.Floats([]float64{1, 2, 3, 4, 5, 6}, 2, 3)
	for _, c := range []struct {
		name string
		op   graph.Op
		in   []ref.Array
		want []float64
	}{
		{"gelu_tanh", ops.Unary{Fn: "gelu_tanh"}, []ref.Array{scalar(1)}, []float64{0.8411919906082768}},
		{"gelu_erf", ops.Unary{Fn: "gelu_erf"}, []ref.Array{scalar(1)}, []float64{0.8413447460685429}},
		{"silu", ops.Unary{Fn: "silu"}, []ref.Array{scalar(1)}, []float64{0.7310585786300049}},
		{"sub stretches", ops.Binary{Fn: "sub"}, []ref.Array{x, ref.Floats([]float64{1, 2}, 2, 1)}, []float64{0, 1, 2, 2, 3, 4}},
		{"matmul transposed", ops.MatMul{TransA: true}, []ref.Array{x, ref.Floats([]float64{1, 10}, 2, 1)}, []float64{41, 52, 63}},
		{"transpose", ops.Transpose{Perm: []int{1, 0}}, []ref.Array{x}, []float64{1, 4, 2, 5, 3, 6}},
		{"slice", ops.Slice{Start: []int{0, 1}, Stop: []int{2, 3}}, []ref.Array{x}, []float64{2, 3, 5, 6}},
		{"concat", ops.Concat{Axis: 1}, []ref.Array{x, ref.Floats([]float64{7, 8}, 2, 1)}, []float64{1, 2, 3, 7, 4, 5, 6, 8}},
		{"mean", ops.Reduce{Fn: "mean", Axes: []int{0}}, []ref.Array{x}, []float64{2.5, 3.5, 4.5}},
		{"max", ops.Reduce{Fn: "max", Axes: []int{1}}, []ref.Array{x}, []float64{3, 6}},
		{"max of negatives", ops.Reduce{Fn: "max"}, []ref.Array{ref.Floats([]float64{-2, -1}, 2)}, []float64{-1}},
		{"average counts padding", ops.AvgPool2D{Kernel: 2, Stride: 1, Pad: 1}, []ref.Array{ref.Floats([]float64{4}, 1, 1, 1, 1)}, []float64{1, 1, 1, 1}},
		{"max ignores padding", ops.MaxPool2D{Kernel: 2, Stride: 1, Pad: 1}, []ref.Array{ref.Floats([]float64{-4}, 1, 1, 1, 1)}, []float64{-4, -4, -4, -4}},
		{"correct: first of equals", ops.Correct{}, []ref.Array{ref.Floats([]float64{1, 1, 0, 1}, 2, 2), ref.Ints([]int32{1, 1}, 2)}, []float64{1}},
		{"binary correct", ops.BinaryCorrect{}, []ref.Array{ref.Floats([]float64{0, 1, -1}, 3), ref.Floats([]float64{0, 0, 1}, 3)}, []float64{1}},
		{"large logits", ops.CrossEntropy{}, []ref.Array{ref.Floats([]float64{1000, 0}, 2), count(1)}, []float64{1000}},
		{"bce of large logits", ops.BCE{}, []ref.Array{scalar(-1000), scalar(1)}, []float64{1000}},
		{"scatter_add", ops.ScatterAdd{Rows: 3}, []ref.Array{ref.Ints([]int32{2, 0, 2}, 3), ref.Floats([]float64{1, 2, 4}, 3, 1)}, []float64{2, 0, 5}},
		{"averaged", ops.Averaged{Op: ops.SGD{Scale: 1}, Decay: 0.75},
			[]ref.Array{ref.Floats([]float64{1, 2}, 2), ref.Floats([]float64{5, 5}, 2), ref.Floats([]float64{1, -1}, 2), scalar(1)}, []float64{0, 3}},
		{"ranged", ops.Ranged{Op: ops.SGD{Momentum: 1, Scale: 1}, From: 1, Count: 2},
			[]ref.Array{ref.Floats([]float64{1, 2, 3, 4}, 2, 2), ref.Floats([]float64{1, 1, 1, 1}, 2, 2), scalar(1), ref.Floats([]float64{0, 1}, 2)},
			[]float64{1, 1, 1, 4}},
		{"ring of pairs", ops.RingWrite{Scale: 0.5}, []ref.Array{ref.Floats([]float64{1, 2, 3, 4}, 2, 2), count(3), ref.Floats([]float64{8, 6}, 2)}, []float64{1, 2, 4, 3}},
		{"ring", ops.RingWrite{Scale: 0.5}, []ref.Array{ref.Floats([]float64{1, 2, 3}, 3), count(4), scalar(8)}, []float64{1, 4, 3}},
		{"clip above", ops.ClipFactor{MaxNorm: 1, Scale: 2}, []ref.Array{scalar(4), scalar(5)}, []float64{1 / (6 + 1e-6)}},
		{"norm", ops.GradNorm{Scale: 2}, []ref.Array{scalar(4), scalar(5)}, []float64{6}},
		{"clip below", ops.ClipFactor{MaxNorm: 9, Scale: 2}, []ref.Array{scalar(4), scalar(5)}, []float64{1}},
	} {
		near(t, c.name, compute(t, c.op, c.in...)[0].F, c.want)
	}
}

// The first of equal elements gets the gradient of a maximum.
func TestTies(t *testing.T) {
	x := ref.Floats([]float64{3, 3, 1, 3}, 2, 2)
	y := compute(t, ops.Reduce{Fn: "max", Axes: []int{0}, Keep: true}, x)[0]
	dx := compute(t, ops.ReduceMaxGrad{Axes: []int{0}}, x, y, ref.Floats([]float64{5, 7}, 1, 2))[0]
	near(t, "gradient of max", dx.F, []float64{5, 7, 0, 0})
	idx := compute(t, ops.MaxPool2D{Kernel: 2, Stride: 1}, ref.Floats([]float64{3, 3, 1, 3}, 1, 1, 2, 2))[1]
	if idx.I[0] != 0 {
		t.Errorf("index of the first of equals is %d", idx.I[0])
	}
}

func TestIntegersMove(t *testing.T) {
	x := ref.Ints([]int32{1, 2, 3, 4}, 2, 2)
	for _, c := range []struct {
		op   graph.Op
		want []int32
	}{
		{ops.Transpose{Perm: []int{1, 0}}, []int32{1, 3, 2, 4}},
		{ops.Slice{Start: []int{1, 0}, Stop: []int{2, 2}}, []int32{3, 4}},
		{ops.Reshape{Shape: shape.Of(4)}, []int32{1, 2, 3, 4}},
		{ops.BroadcastTo{Shape: shape.Of(2, 2, 2)}, []int32{1, 2, 3, 4, 1, 2, 3, 4}},
		{ops.Concat{}, []int32{1, 2, 3, 4}},
	} {
		if got := compute(t, c.op, x)[0]; !slices.Equal(got.I, c.want) {
			t.Errorf("%s gives %v, expected %v", graph.OpString(c.op), got.I, c.want)
		}
	}
	filled := compute(t, ops.Fill{Meta: shape.I32(2), Value: 3})[0]
	if !slices.Equal(filled.I, []int32{3, 3}) {
		t.Errorf("filled with %v", filled.I)
	}
}

func TestRunTimeErrors(t *testing.T) {
	logits := ref.Floats([]float64{1, 2}, 1, 2)
	for _, c := range []struct {
		op   graph.Op
		in   []ref.Array
		want string
	}{
		{ops.Gather{}, []ref.Array{logits, count(1)}, "gather: id 1 is outside a table of 1 rows"},
		{ops.ScatterAdd{Rows: 2}, []ref.Array{count(-1), ref.Floats([]float64{1}, 1)}, "id -1"},
		{ops.CrossEntropy{}, []ref.Array{logits, ref.Ints([]int32{2}, 1)}, "target 2 of row 0 is outside the 2 classes"},
		{ops.CrossEntropyGrad{}, []ref.Array{logits, ref.Ints([]int32{-1}, 1), ref.Floats([]float64{1}, 1), scalar(1)}, "target -1"},
		{ops.Correct{}, []ref.Array{logits, ref.Ints([]int32{5}, 1)}, "target 5"},
		{ops.CheckFinite{}, []ref.Array{scalar(math.NaN())}, "not finite"},
		{ops.CheckFinite{}, []ref.Array{scalar(math.Inf(-1))}, "not finite"},
		{ops.SumSquares{}, []ref.Array{{Meta: shape.F32(2), F: []float64{1}}}, "f32[2] has 1 floats"},
		{ops.Increment{}, []ref.Array{{Meta: shape.I32(), F: []float64{1}}}, "i32[] has 1 floats and 0 integers"},
		{ops.SumSquares{}, nil, "takes 1 inputs"},
	} {
		if _, err := ref.Run(c.op, c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q", c.op.Kind(), err, c.want)
		}
	}
}
