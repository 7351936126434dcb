package ops_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Each helper appends the op it is named for, with its attributes in place.
func TestHelpersAppendTheirOp(t *testing.T) {
	b := graph.NewBuilder("helpers", 1)
	x, y := b.Input("x", shape.F32(2, 3)), b.Input("y", shape.F32(2, 3))
	img, w := b.Input("img", shape.F32(1, 2, 4, 4)), b.Input("w", shape.F32(2, 1, 3, 3))
	ids := b.Input("ids", shape.I32(5))
	for want, v := range map[string]*graph.Value{
		"add{Fn:add} f32[2,3]":                                   ops.Add(b, x, y),
		"sub{Fn:sub} f32[2,3]":                                   ops.Sub(b, x, y),
		"mul{Fn:mul} f32[2,3]":                                   ops.Mul(b, x, y),
		"div{Fn:div} f32[2,3]":                                   ops.Div(b, x, y),
		"neg{Fn:neg} f32[2,3]":                                   ops.Neg(b, x),
		"relu{Fn:relu} f32[2,3]":                                 ops.Relu(b, x),
		"gelu_tanh{Fn:gelu_tanh} f32[2,3]":                       ops.GeluTanh(b, x),
		"gelu_erf{Fn:gelu_erf} f32[2,3]":                         ops.GeluErf(b, x),
		"silu{Fn:silu} f32[2,3]":                                 ops.Silu(b, x),
		"sigmoid{Fn:sigmoid} f32[2,3]":                           ops.Sigmoid(b, x),
		"tanh{Fn:tanh} f32[2,3]":                                 ops.Tanh(b, x),
		"exp{Fn:exp} f32[2,3]":                                   ops.Exp(b, x),
		"log{Fn:log} f32[2,3]":                                   ops.Log(b, x),
		"sqrt{Fn:sqrt} f32[2,3]":                                 ops.Sqrt(b, x),
		"rsqrt{Fn:rsqrt} f32[2,3]":                               ops.Rsqrt(b, x),
		"square{Fn:square} f32[2,3]":                             ops.Square(b, x),
		"abs{Fn:abs} f32[2,3]":                                   ops.Abs(b, x),
		"affine{Scale:2 Shift:0} f32[2,3]":                       ops.ScaleBy(b, x, 2),
		"affine{Scale:1 Shift:3} f32[2,3]":                       ops.AddConst(b, x, 3),
		"fill{Meta:f32[2] Value:4} f32[2]":                       ops.Const(b, shape.F32(2), 4),
		"matmul{TransA:true TransB:false BF16:false} f32[3,3]":   ops.MatMulOf(b, x, y, true, false),
		"matmul{TransA:false TransB:true BF16:false} f32[2,2]":   ops.MatMulOf(b, x, y, false, true),
		"conv2d{Stride:2 Pad:1 Groups:2} f32[1,2,2,2]":           ops.Conv2DOf(b, img, w, 2, 1, 2),
		"max_pool2d{Kernel:3 Stride:1 Pad:1} f32[1,2,4,4]":       ops.MaxPool(b, img, 3, 1, 1),
		"avg_pool2d{Kernel:2 Stride:2 Pad:0} f32[1,2,2,2]":       ops.AvgPool(b, img, 2, 2, 0),
		"reduce_sum{Fn:sum Axes:[] Keep:false} f32[]":            ops.Sum(b, x, false),
		"reduce_mean{Fn:mean Axes:[2 3] Keep:true} f32[1,2,1,1]": ops.Mean(b, img, true, -1, -2),
		"reduce_max{Fn:max Axes:[1] Keep:false} f32[2]":          ops.Max(b, x, false, 1),
		"sum_to{Shape:[3]} f32[3]":                               ops.SumToShape(b, x, shape.Of(3)),
		"broadcast_to{Shape:[4,2,3]} f32[4,2,3]":                 ops.Broadcast(b, x, shape.Of(4, 2, 3)),
		"reshape{Shape:[3,2]} f32[3,2]":                          ops.ReshapeTo(b, x, 3, -1),
		"transpose{Perm:[1 0]} f32[3,2]":                         ops.TransposeTo(b, x, 1, 0),
		"slice{Start:[0 1] Stop:[2 3]} f32[2,2]":                 ops.SliceOf(b, x, []int{0, 1}, []int{2, 3}),
		"concat{Axis:1} f32[2,6]":                                ops.ConcatOf(b, -1, x, y),
		"softmax{} f32[2,3]":                                     ops.SoftmaxOf(b, x),
		"log_softmax{} f32[2,3]":                                 ops.LogSoftmaxOf(b, x),
		"gather{} f32[5,3]":                                      ops.EmbeddingOf(b, x, ids),
	} {
		if b.Err() != nil {
			t.Fatal(b.Err())
		}
		if got := graph.OpString(v.Node.Op) + " " + v.Meta.String(); got != want {
			t.Errorf("got %s, expected %s", got, want)
		}
	}
}

// What would change nothing appends nothing.
func TestHelpersAppendNothingWhereNothingChanges(t *testing.T) {
	b := graph.NewBuilder("helpers", 1)
	x := b.Input("x", shape.F32(2, 3))
	for name, v := range map[string]*graph.Value{
		"scale":     ops.ScaleBy(b, x, 1),
		"sum to":    ops.SumToShape(b, x, shape.Of(2, 3)),
		"broadcast": ops.Broadcast(b, x, shape.Of(2, 3)),
		"reshape":   ops.ReshapeTo(b, x, -1, 3),
	} {
		if v != x {
			t.Errorf("%s appended %v", name, v.Node)
		}
	}
}

func TestHelpersFailThroughTheBuilder(t *testing.T) {
	for want, use := range map[string]func(b *graph.Builder, x *graph.Value) *graph.Value{
		"more than one free dimension": func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.ReshapeTo(b, x, -1, -1) },
		"does not divide into [4,-1]":  func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.ReshapeTo(b, x, 4, -1) },
		"cannot reshape":               func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.ReshapeTo(b, x, 4, 2) },
		"at least 1 input":             func(b *graph.Builder, _ *graph.Value) *graph.Value { return ops.ConcatOf(b, -1) },
		"axes [-1 1]":                  func(b *graph.Builder, x *graph.Value) *graph.Value { return ops.Sum(b, x, false, 1, -3) },
	} {
		b := graph.NewBuilder("helpers", 1)
		v := use(b, b.Input("x", shape.F32(2, 3)))
		ops.Relu(b, ops.ReshapeTo(b, ops.Mean(b, v, false, -1), 7, -1)) // later calls are harmless
		if err := b.Err(); !errors.Is(err, graph.ErrShape) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}
