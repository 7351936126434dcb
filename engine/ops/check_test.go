package ops_test

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

type badCase struct {
	op   graph.Op
	in   []shape.Meta
	want string // part of the message
}

func metas(ms ...shape.Meta) []shape.Meta { return ms }

var (
	f  = shape.F32
	in = shape.I32
)

// bad has inputs that a metadata rule must refuse, by kind.
var bad = func() map[string][]badCase {
	all := map[string][]badCase{
		"affine": {{ops.Affine{}, metas(in(2)), "expected f32"}},
		"less":   {{ops.Compare{"less"}, metas(f(2), f(1)), "expected one shape"}},
		"equal":  {{ops.Compare{"equal"}, metas(f(2), in(2)), "expected f32"}},
		"select": {{ops.Select{}, metas(f(2), f(2), f(1)), "expected one shape"}},
		"lerp":   {{ops.Lerp{}, metas(f(2), f(1)), "expected one shape"}},
		"fill": {
			{ops.Fill{Meta: f(2)}, metas(f(2)), "takes 0 inputs, got 1"},
			{ops.Fill{Meta: shape.Meta{DType: shape.Float64}}, nil, "cannot fill f64[]"},
		},
		"matmul": {
			{ops.MatMul{TransB: true}, metas(f(2, 128), f(10, 64)), "input has 128 features, weight expects 64"},
			{ops.MatMul{}, metas(f(2, 3, 5), f(4, 6)), "input has 5 features, weight expects 4"},
			{ops.MatMul{}, metas(f(3), f(3, 4)), "at least 2 dimensions"},
			{ops.MatMul{}, metas(f(2, 3, 4), f(3, 4, 5)), "same leading dimensions"},
			{ops.MatMul{TransA: true}, metas(f(2, 3, 4), f(3, 5)), "same leading dimensions"},
			{ops.MatMul{}, metas(f(2, 3, 4), f(2, 5, 6)), "the left side [2,3,4] has 4"},
			{ops.MatMul{}, metas(f(2, 3), in(3, 2)), "input 1 is i32[3,2], expected f32"},
		},
		"sum_to":       {{ops.SumTo{Shape: shape.Of(3)}, metas(f(2, 4)), "[3] does not broadcast to [2,4]"}},
		"broadcast_to": {{ops.BroadcastTo{Shape: shape.Of(2)}, metas(f(3)), "does not broadcast"}, {ops.BroadcastTo{}, nil, "takes 1 inputs"}},
		"sum_squares":  {{ops.SumSquares{}, metas(in()), "expected f32"}},
		"reduce_sum": {
			{ops.Reduce{Fn: "sum", Axes: []int{2}}, metas(f(2, 3)), "axes [2]"},
			{ops.Reduce{Fn: "sum"}, metas(in(2)), "expected f32"},
			{ops.Reduce{Fn: "sum", Axes: []int{1, 0}}, metas(f(2, 3)), "ascending"},
		},
		"reduce_mean": {{ops.Reduce{Fn: "mean"}, metas(f(2, 0)), "not defined"}},
		"reduce_max":  {{ops.Reduce{Fn: "max"}, metas(f(0)), "the max of no elements"}},
		"reshape": {
			{ops.Reshape{Shape: shape.Of(2, 2)}, metas(f(5)), "cannot reshape f32[5] (5 elements) to [2,2] (4)"},
			{ops.Reshape{Shape: shape.Of(-1, -5)}, metas(f(5)), "negative"},
		},
		"cast":       {{ops.Cast{To: "f64"}, metas(f(2)), "no type \"f64\""}, {ops.Cast{To: "f32"}, metas(f(2)), "expected i32"}, {ops.Cast{To: "f16"}, nil, "inputs"}},
		"transpose":  {{ops.Transpose{Perm: []int{0, 0}}, metas(f(2, 3)), "not a permutation"}, {ops.Transpose{Perm: []int{0}}, metas(f(2, 3)), "does not fit"}},
		"slice":      {{ops.Slice{Start: []int{1}, Stop: []int{4}}, metas(f(3)), "slice 1:4 of axis 0"}, {ops.Slice{}, metas(f(3)), "every axis"}},
		"slice_grad": {{ops.SliceGrad{Start: []int{2}, Shape: shape.Of(3)}, metas(f(2)), "does not fit"}, {ops.SliceGrad{}, metas(f(2)), "does not fit"}},
		"concat": {
			{ops.Concat{}, nil, "at least 1 input"},
			{ops.Concat{Axis: 1}, metas(f(2)), "axis 1 is not one of [2]"},
			{ops.Concat{Axis: 0}, metas(f(2, 3), f(2, 4)), "input 1 is f32[2,4]"},
			{ops.Concat{Axis: 0}, metas(f(2), in(2)), "input 1 is i32[2]"},
		},
		"softmax":          {{ops.Softmax{}, metas(f()), "last dimension"}},
		"softmax_grad":     {{ops.SoftmaxGrad{}, metas(f(2), f(3)), "expected one shape"}},
		"log_softmax":      {{ops.LogSoftmax{}, metas(f(2, 0)), "last dimension"}},
		"log_softmax_grad": {{ops.LogSoftmaxGrad{}, metas(f(2)), "takes 2 inputs, got 1"}},
	}
	for _, part := range []map[string][]badCase{badUnary(), badConv, badLoss, badNorm, badUpdate, badGenerate, badLengths} {
		for k, v := range part {
			all[k] = v
		}
	}
	return all
}()

func badUnary() map[string][]badCase {
	all := map[string][]badCase{}
	for _, fn := range []string{"add", "sub", "mul", "div"} {
		all[fn] = []badCase{
			{ops.Binary{Fn: fn}, metas(f(2, 3), f(2)), "do not broadcast: 3 against 2"},
			{ops.Binary{Fn: fn}, metas(f(2), in(2)), "input 1 is i32[2], expected f32"},
			{ops.Binary{Fn: fn}, metas(f(2)), "takes 2 inputs, got 1"},
		}
	}
	for _, fn := range []string{"neg", "relu", "gelu_tanh", "gelu_erf", "silu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "square", "abs"} {
		all[fn] = []badCase{{ops.Unary{Fn: fn}, metas(in(2)), "expected f32"}}
		if fn != "neg" {
			all[fn+"_grad"] = []badCase{{ops.UnaryGrad{Fn: fn}, metas(f(2), f(3)), "expected one shape"}}
		}
	}
	return all
}

var badConv = map[string][]badCase{
	"conv2d": {
		{ops.Conv2D{Stride: 1, Groups: 1}, metas(f(1, 3, 8, 8), f(4, 2, 3, 3)), "input has 3 channels, weight expects 2"},
		{ops.Conv2D{Stride: 1, Groups: 2}, metas(f(1, 3, 8, 8), f(4, 2, 3, 3)), "2 groups do not divide 3"},
		{ops.Conv2D{Stride: 1}, metas(f(1, 2, 8, 8), f(4, 2, 3, 3)), "0 groups"},
		{ops.Conv2D{Stride: 1, Groups: 1}, metas(f(1, 2, 2, 8), f(4, 2, 3, 3)), "kernel of 3 does not fit into height 2"},
		{ops.Conv2D{Stride: 1, Groups: 1}, metas(f(1, 2, 8, 2), f(4, 2, 3, 3)), "kernel of 3 does not fit into width 2"},
		{ops.Conv2D{Groups: 1}, metas(f(1, 2, 8, 8), f(4, 2, 3, 3)), "stride 0"},
		{ops.Conv2D{Stride: 1, Groups: 1, Dilation: -1}, metas(f(1, 2, 8, 8), f(4, 2, 3, 3)), "dilation -1: give at least 1"},
		{ops.Conv2D{Stride: 1, Groups: 1, Dilation: 4}, metas(f(1, 2, 8, 8), f(4, 2, 3, 3)), "kernel of 9 does not fit into height 8"},
		{ops.Conv2D{Stride: 1, Groups: 1}, metas(f(2, 8, 8), f(4, 2, 3, 3)), "[N,C,H,W]"},
	},
	"conv2d_grad_x": {
		{ops.Conv2DGradX{Of: ops.Conv2D{Stride: 1, Groups: 1}, H: 5, W: 5}, metas(f(4, 2, 3, 3), f(1, 4, 4, 3)), "dy is f32[1,4,4,3], expected f32[1,4,3,3]"},
		{ops.Conv2DGradX{}, metas(f(4), f(4)), "4 dimensions"},
	},
	"conv2d_grad_w": {
		{ops.Conv2DGradW{Of: ops.Conv2D{Stride: 1, Groups: 1}, KH: 3, KW: 2}, metas(f(1, 2, 5, 5), f(1, 4, 3, 3)), "expected f32[1,4,3,4]"},
		{ops.Conv2DGradW{}, metas(f(1, 2, 5, 5), f(1, 4, 3, 3)), "at least 1 group"},
	},
	"max_pool2d": {
		{ops.MaxPool2D{Kernel: 2, Stride: 2, Pad: 2}, metas(f(1, 1, 4, 4)), "padding 2 is more than half"},
		{ops.MaxPool2D{Kernel: 5, Stride: 1}, metas(f(1, 1, 4, 4)), "does not fit"},
		{ops.MaxPool2D{Kernel: 2, Stride: 2}, metas(f(4, 4)), "[N,C,H,W]"},
	},
	"max_pool2d_grad": {
		{ops.MaxPool2DGrad{H: 4, W: 4}, metas(in(1, 1, 2, 2), f(1, 1, 2, 3)), "dy is"},
		{ops.MaxPool2DGrad{H: 4, W: 4}, metas(f(1, 1, 2, 2), f(1, 1, 2, 2)), "idx is f32"},
		{ops.MaxPool2DGrad{H: 4, W: 4}, metas(in(2), f(2)), "[N,C,H,W]"},
	},
	"avg_pool2d":      {{ops.AvgPool2D{Kernel: 0, Stride: 1}, metas(f(1, 1, 4, 4)), "kernel 0"}},
	"avg_pool2d_grad": {{ops.AvgPool2DGrad{Kernel: 2, Stride: 2, H: 4, W: 4}, metas(f(1, 1, 2, 3)), "expected f32[1,1,2,2]"}},
	"select_grad":     {{ops.SelectGrad{}, metas(f(1), f(2)), "expected one shape"}},
	"reduce_max_grad": {
		{ops.ReduceMaxGrad{Axes: []int{1}}, metas(f(2, 3), f(2), f(2, 1)), "y is f32[2], expected f32[2,1]"},
		{ops.ReduceMaxGrad{Axes: []int{1}}, metas(f(2, 3), f(2, 1), f(2)), "dy is f32[2]"},
		{ops.ReduceMaxGrad{Axes: []int{5}}, metas(f(2, 3), f(2, 1), f(2)), "axes [5]"},
	},
}

var badLoss = map[string][]badCase{
	"cross_entropy": {
		{ops.CrossEntropy{}, metas(f(2, 3), in(3)), "targets are i32[3], logits f32[2,3] expect i32[2]"},
		{ops.CrossEntropy{}, metas(f(2, 3), f(2)), "targets are f32[2]"},
		{ops.CrossEntropy{}, metas(f(), in()), "at least 1 dimensions"},
		{ops.CrossEntropy{}, metas(f(2, 0), in(2)), "at least 1 class"},
	},
	"cross_entropy_grad": {
		{ops.CrossEntropyGrad{}, metas(f(2, 3), in(2), f(3), f()), "lse is"},
		{ops.CrossEntropyGrad{}, metas(f(2, 3), in(2), f(2), f(2)), "dloss is"},
	},
	"mse":            {{ops.MSE{}, metas(f(2), f(2, 1)), "expected one shape"}},
	"mse_grad":       {{ops.MSEGrad{}, metas(f(2), f(2), f(1)), "dloss is"}},
	"bce":            {{ops.BCE{}, metas(f(2), in(2)), "expected f32"}},
	"bce_grad":       {{ops.BCEGrad{}, metas(f(2), f(3), f()), "expected one shape"}},
	"correct":        {{ops.Correct{}, metas(f(2, 3), in(2, 3)), "targets are"}},
	"binary_correct": {{ops.BinaryCorrect{}, metas(f(2), f(3)), "expected one shape"}},
	"outcome": {
		{ops.Outcome{}, metas(f(2, 3), in(2, 3)), "targets are"},
		{ops.Outcome{}, metas(f(2, 46341), in(2)), "at most 46340 classes"},
	},
	"binary_outcome": {
		{ops.BinaryOutcome{}, metas(f(2), f(3)), "expected one shape"},
		{ops.BinaryOutcome{}, metas(f(), f()), "at least 1 dimensions"},
	},
	"rank": {{ops.Rank{}, metas(f(2, 3), in(2, 3)), "targets are"}},
	"nonzero": {
		{ops.Nonzero{}, nil, "takes 1 inputs, got 0"},
		{ops.Nonzero{}, metas(shape.Meta{DType: shape.BFloat16, Shape: shape.Of(2)}), "x is bf16[2], expected f32 or i32: convert it with ops.Cast"},
		{ops.Nonzero{}, metas(f(1<<16, 1<<15)), "expected at most 2147483647 elements, since their indices are i32"},
	},
	"unique": {
		{ops.Unique{}, metas(f(1), f(1)), "takes 1 inputs, got 2"},
		{ops.Unique{}, metas(shape.Meta{DType: shape.Uint8, Shape: shape.Of(2)}), "x is u8[2], expected f32 or i32: convert it with ops.Cast"},
		{ops.Unique{}, metas(in(1 << 31)), "expected at most 2147483647 elements, since their indices are i32"},
	},
	"tally": {
		{ops.Tally{}, metas(in(2, 2), in(2)), "expected i32 [n]"},
		{ops.Tally{}, metas(in(2), f(2)), "expected i32"},
	},
	"check_finite": {{ops.CheckFinite{}, metas(f(1)), "expected f32[]"}},
	"dropout": {
		{ops.Dropout{P: 1}, metas(f(2), in(), in()), "dropout of 1 is outside [0,1)"},
		{ops.Dropout{}, metas(f(2), f(), in()), "step is f32[]"},
		{ops.Dropout{}, metas(f(2), in(), in(1)), "base is i32[1]"},
		{ops.Dropout{}, metas(f(), in(), in()), "at least 1 dimensions"},
	},
	"swiglu":     {{ops.Gated{Fn: "swiglu"}, metas(f(2), f(3)), "expected one shape"}},
	"geglu":      {{ops.Gated{Fn: "geglu"}, metas(f(2), f(1, 2)), "expected one shape"}},
	"geglu_tanh": {{ops.Gated{Fn: "geglu_tanh"}, metas(f(2), in(2)), "expected f32"}},
	"rotary": {
		{ops.Rotary{Size: 2, Heads: 1, Base: 1e4}, metas(f(2, 4)), "[batch, time, heads]"},
		{ops.Rotary{Size: 3, Heads: 1, Base: 1e4}, metas(f(1, 2, 6)), "heads of 3 numbers"},
		{ops.Rotary{Size: 4, Heads: 1, Base: 1e4}, metas(f(1, 2, 6)), "width 6 does not hold 1 heads of 4"},
		{ops.Rotary{Size: 2, Heads: 4, Base: 1e4}, metas(f(1, 2, 6)), "width 6 does not hold 4 heads of 2"},
		{ops.Rotary{Size: 2, Heads: 1}, metas(f(1, 2, 6)), "a base of 0"},
		{ops.Rotary{Size: 2, Heads: 1, Base: 1e4}, metas(f(1, 2, 6), in(2)), "positions is i32[2], expected i32[1,2]"},
		{ops.Rotary{Size: 2, Heads: 1, Base: 1e4, Scaling: ops.RotaryScaling{Kind: "yarn"}}, metas(f(1, 2, 6)), `no scaling "yarn": use linear, ntk or llama3`},
		{ops.Rotary{Size: 2, Heads: 1, Base: 1e4, Scaling: ops.RotaryScaling{Kind: "linear"}}, metas(f(1, 2, 6)), "a scaling by 0"},
		{ops.Rotary{Size: 2, Heads: 1, Base: 1e4, Scaling: ops.RotaryScaling{Kind: "ntk", Factor: 2}}, metas(f(1, 2, 6)), "scaling ntk takes at least 4"},
		{ops.Rotary{Size: 2, Heads: 1, Base: 1e4, Scaling: ops.RotaryScaling{Kind: "llama3", Factor: 2, Low: 4, High: 1, Context: 9}}, metas(f(1, 2, 6)), "scaling llama3 between 4 and 1 turns"},
	},
	"gather":      {{ops.Gather{}, metas(f(2), in(2)), "table is"}, {ops.Gather{}, metas(f(2, 2), f(2)), "ids is f32"}},
	"scatter_add": {{ops.ScatterAdd{Rows: 2}, metas(in(2), f(3, 4)), "expects [3]"}, {ops.ScatterAdd{Rows: 2}, metas(f(2), f(3, 4)), "ids is"}},
	"attention": {
		{ops.Attention{Heads: 2}, metas(f(1, 2, 9)), "width 9 does not split into 2 heads of queries and 2 of keys and values"},
		{ops.Attention{Heads: 3, KVHeads: 2}, metas(f(1, 2, 7)), "3 heads of queries cannot share 2 of keys and values"},
		{ops.Attention{Heads: 1, Window: -1}, metas(f(1, 2, 3)), "a window of -1 keys"},
		{ops.Attention{Heads: 1, Padded: true}, metas(f(1, 2, 3), in(2)), "lengths is i32[2], expected i32[1]"},
		{ops.Attention{Heads: 2}, metas(f(2, 8)), "queries+keys+values"},
		{ops.Attention{Heads: 1, P: 0.1}, metas(f(1, 2, 9)), "takes 3 inputs"},
		{ops.Attention{Heads: 1, P: 0.1}, metas(f(1, 2, 9), in(), f()), "base is"},
	},
	"attention_grad": {
		{ops.AttentionGrad{Heads: 1}, metas(f(1, 2, 9), f(1, 2, 3), f(1, 2), f(1, 2, 3)), "lse is"},
		{ops.AttentionGrad{Heads: 1}, metas(f(1, 2, 9), f(1, 2, 4), f(1, 1, 2), f(1, 2, 3)), "y is"},
		{ops.AttentionGrad{Heads: 1}, metas(f(1, 2, 9), f(1, 2, 3), f(1, 1, 2), f(1, 2)), "dy is"},
	},
}

var badNorm = map[string][]badCase{
	"layer_norm": {
		{ops.LayerNorm{}, metas(f(2, 3), f(4), f(3)), "input has 3 features, weight expects [4]"},
		{ops.LayerNorm{}, metas(f(), f(1), f(1)), "for the features"},
	},
	"rms_norm": {
		{ops.RMSNorm{}, metas(f(2, 3), f(4)), "input has 3 features, weight expects [4]"},
		{ops.RMSNorm{}, metas(f(), f(1)), "for the features"},
	},
	"rms_norm_grad": {
		{ops.RMSNormGrad{}, metas(f(2, 3), f(3), f(3), f(2, 3)), "rstd is"},
		{ops.RMSNormGrad{}, metas(f(2, 3), f(3), f(2), f(2)), "dy is"},
	},
	"layer_norm_grad": {
		{ops.LayerNormGrad{}, metas(f(2, 3), f(3), f(3), f(2), f(2, 3)), "mean is"},
		{ops.LayerNormGrad{}, metas(f(2, 3), f(3), f(2), f(2), f(2)), "dy is"},
	},
	"batch_norm": {
		{ops.BatchNorm{}, metas(f(2, 3), f(2), f(2)), "input has 3 features"},
		{ops.BatchNorm{}, metas(f(2), f(2), f(2)), "no dimension 1 for the features"},
	},
	"batch_norm_grad": {{ops.BatchNormGrad{}, metas(f(2, 3), f(3), f(3), f(2), f(2, 3)), "rstd is"}},
	"batch_norm_eval": {{ops.BatchNormEval{}, metas(f(2, 3), f(3), f(3), f(3), f(1)), "weight expects [1]"}},
}

var badUpdate = map[string][]badCase{
	"sgd": {
		{ops.SGD{}, metas(f(2), f(3), f()), "input 1 is f32[3], expected f32[2]"},
		{ops.SGD{}, metas(f(2), f(2), f(1)), "input 2 is"},
		{ops.SGD{Momentum: 0.9}, metas(f(2), f(2), f()), "takes 4 inputs"},
		{ops.SGD{Momentum: 0.9, Clip: true}, metas(f(2), f(2), f(), f(2), f(2)), "input 4 is"},
		{ops.SGD{Nesterov: true}, metas(f(2), f(2), f()), "momentum 0"},
	},
	"adam": {
		{ops.Adam{}, metas(f(2), f(2), f(2), f(1), in(), f()), "input 3 is"},
		{ops.Adam{}, metas(f(2), f(2), f(2), f(2), f(), f()), "step is"},
		{ops.Adam{Clip: true}, metas(f(2), f(2), f(2), f(2), in(), f()), "takes 7 inputs"},
		{ops.Adam{Beta2: 1}, metas(f(2), f(2), f(2), f(2), in(), f()), "outside [0,1)"},
	},
	"lion": {
		{ops.Lion{}, metas(f(2), f(2), f(1), f()), "input 2 is f32[1], expected f32[2]"},
		{ops.Lion{}, metas(f(2), f(2), f(2), f(1)), "input 3 is"},
		{ops.Lion{}, metas(f(2), f(2), f(2), in()), "expected f32"},
		{ops.Lion{Clip: true}, metas(f(2), f(2), f(2), f()), "takes 5 inputs"},
		{ops.Lion{Beta1: 1}, metas(f(2), f(2), f(2), f()), "outside [0,1)"},
	},
	"clip_factor": {
		{ops.ClipFactor{MaxNorm: 1}, nil, "at least 1"},
		{ops.ClipFactor{}, metas(f()), "not positive"},
		{ops.ClipFactor{MaxNorm: 1}, metas(f(), f(2)), "input 1 is"},
	},
	"grad_norm": {
		{ops.GradNorm{}, nil, "at least 1"},
		{ops.GradNorm{}, metas(f(), f(2)), "input 1 is"},
	},
	"learning_rate": {
		{ops.LearningRate{Schedule: "cyclic"}, metas(in()), `no schedule "cyclic"`},
		{ops.LearningRate{Schedule: "step"}, metas(in()), "schedule step: every is 0: give it a whole number of at least 1"},
		{ops.LearningRate{Schedule: "cosine", Warmup: 5, Total: 5}, metas(in()), "within its warm-up of 5"},
		{ops.LearningRate{Schedule: "one_cycle", Warmup: 5, Total: 50}, metas(in()), "schedule one_cycle: one_cycle has a warm-up of its own"},
		{ops.LearningRate{Schedule: "wsd", Keys: ops.WSD{DecayRatio: 2}, Total: 50}, metas(in()), "schedule wsd: decay_ratio is 2"},
		{ops.LearningRate{Schedule: "constant"}, metas(f()), "step is"},
	},
	"increment": {{ops.Increment{}, metas(f()), "expected i32[]"}},
	"averaged": {
		{ops.Averaged{Op: ops.SGD{}}, metas(f(2), f(3), f(2), f()), "average is f32[3], expected f32[2]"},
		{ops.Averaged{Op: ops.SGD{}}, metas(f(2), f(2), f(3), f()), "input 1 is f32[3]"},
		{ops.Averaged{Op: ops.SGD{}}, metas(f(2)), "got 1 inputs"},
		{ops.Averaged{Op: ops.SGD{}, Decay: 1}, metas(f(2), f(2), f(2), f()), "decay 1 is outside [0,1)"},
		{ops.Averaged{Op: ops.SumSquares{}}, metas(f(2), f(2)), "no weight that could be averaged"},
		{ops.Averaged{}, nil, "no weight that could be averaged"},
	},
	"ranged": {
		{ops.Ranged{Op: ops.SGD{}, From: 2, Count: 3}, metas(f(2, 2), f(2, 2), f()), "elements 2 to 5 are outside input 0, f32[2,2]"},
		{ops.Ranged{Op: ops.SGD{Momentum: 0.9}, Count: 2}, metas(f(4), f(4), f(), f(1)), "outside input 3"},
		{ops.Ranged{Op: ops.SGD{}, Count: 2}, metas(f(4), f(4), in()), "expected f32"},
		{ops.Ranged{Op: ops.SumSquares{}, Count: 2}, metas(f(4)), "cannot update a range"},
		{ops.Ranged{}, nil, "cannot update a range"},
	},
	"square_parts": {{ops.SquareParts{}, metas(in(2)), "expected f32"}},
	"square_total": {{ops.SquareTotal{}, metas(in(1, 2), in(3, 1)), "input 1 is i32[3,1], expected i32[sums,2]"}},
	"ring_write": {
		{ops.RingWrite{}, metas(f(0), in(), f()), "length"},
		{ops.RingWrite{}, metas(f(2), in(), f(1)), "x is"},
		{ops.RingWrite{}, metas(f(2, 3), in(), f()), "x is"},
		{ops.RingWrite{}, metas(f(2), f(), f()), "step is"},
	},
}

// unknown are attributes that name a function that does not exist.
var unknown = []badCase{
	{ops.Binary{Fn: "pow"}, metas(f(), f()), "no binary function"},
	{ops.Unary{Fn: "sinh"}, metas(f()), "no unary function"},
	{ops.UnaryGrad{Fn: "neg"}, metas(f(), f()), "no gradient of a unary function"},
	{ops.Reduce{Fn: "min"}, metas(f(2)), "use sum, mean or max"},
}
