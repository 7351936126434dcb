package kernels

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// cases draw one application per kind of op.
var cases = map[string]func(s source) sample{}

func init() {
	for _, fn := range []string{"add", "sub", "mul", "div"} {
		cases[fn] = func(s source) sample { return drawBinary(s, fn) }
	}
	for _, fn := range []string{"neg", "relu", "gelu_tanh", "gelu_erf", "silu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "square", "abs"} {
		cases[fn] = func(s source) sample {
			return sample{ops.Unary{Fn: fn}, []ref.Array{drawDomain(s, fn)}, 1e-6}
		}
		if fn == "neg" {
			continue
		}
		cases[fn+"_grad"] = func(s source) sample {
			a := drawDomain(s, fn)
			return sample{ops.UnaryGrad{Fn: fn}, []ref.Array{a, s.normal(a.Meta.Shape...)}, 2e-6}
		}
	}
	for _, fn := range []string{"sum", "mean", "max"} {
		cases["reduce_"+fn] = func(s source) sample { return drawReduce(s, fn) }
	}
	maps.Copy(cases, movementCases)
	maps.Copy(cases, productCases)
	maps.Copy(cases, rowCases)
	maps.Copy(cases, updateCases)
}

// drawDomain is inputs (or outputs, where the gradient takes those) of an
// elementwise function.
func drawDomain(s source, fn string) ref.Array {
	dims := s.shape("x", 0, 3, 40)
	switch fn {
	case "log", "sqrt", "rsqrt":
		return s.floats(0.2, 4, dims...)
	case "sigmoid", "tanh", "exp":
		return s.floats(-1, 1, dims...)
	}
	return s.floats(-6, 6, dims...)
}

func drawBinary(s source, fn string) sample {
	out := s.shape("x", 0, 4, 13)
	if rapid.IntRange(0, 4).Draw(s.t, "narrow") == 0 {
		out = shape.Of(s.size("n", 3), s.size("rows", 3000), s.size("few", 40))
	}
	shrink := func(name string) []int {
		d := slices.Clone(out[rapid.IntRange(0, len(out)).Draw(s.t, name+" from"):])
		for i := range d {
			if rapid.IntRange(0, 3).Draw(s.t, name) == 0 {
				d[i] = 1
			}
		}
		return d
	}
	b := s.floats(0.5, 2, shrink("b")...)
	return sample{ops.Binary{Fn: fn}, []ref.Array{s.normal(shrink("a")...), b}, 1e-6}
}

// axes draws some axes of a shape, ascending.
func (s source) axes(x shape.Shape) []int {
	var axes []int
	for i := range x {
		if s.bool("axis") {
			axes = append(axes, i)
		}
	}
	return axes
}

func drawReduce(s source, fn string) sample {
	x := s.shape("x", 0, 4, 20)
	if fn != "sum" && x.Elems() == 0 {
		x = shape.Of(3, 1)
	}
	if rapid.IntRange(0, 4).Draw(s.t, "large") == 0 {
		x = rapid.SampledFrom([]shape.Shape{ // with rows that are narrow, many or shared
			{s.size("rows", 30000), s.size("few", 17)}, {s.size("rows", 300), s.size("columns", 1500)},
			{s.size("n", 90), s.size("c", 30), s.size("s", 90)}, {s.size("n", 9), s.size("rows", 3000), s.size("few", 20)},
			{s.size("n", 9), s.size("c", 5), s.size("h", 40), s.size("w", 40)},
		}).Draw(s.t, "shape")
	}
	return sample{ops.Reduce{Fn: fn, Axes: s.axes(x), Keep: s.bool("keep")}, []ref.Array{s.odd(s.normal(x...))}, 1e-6}
}

var movementCases = map[string]func(s source) sample{
	"affine": func(s source) sample {
		return sample{ops.Affine{Scale: 1.5, Shift: -0.3}, []ref.Array{s.normal(s.shape("x", 0, 2, 90)...)}, 1e-6}
	},
	"lerp": func(s source) sample {
		x := s.shape("x", 0, 2, 90)
		return sample{ops.Lerp{T: 0.1}, []ref.Array{s.normal(x...), s.normal(x...)}, 1e-6}
	},
	"fill": func(s source) sample {
		m := shape.Meta{DType: shape.Float32, Shape: s.shape("x", 0, 2, 90)}
		if s.bool("int") {
			m.DType = shape.Int32
		}
		return sample{ops.Fill{Meta: m, Value: 7}, nil, 0}
	},
	"reduce_max_grad": func(s source) sample {
		x := s.normal(s.shape("x", 1, 3, 9)...)
		if x.Meta.Elems() == 0 {
			x = s.normal(2, 3)
		}
		for i := range x.F {
			x.F[i] = math.Round(x.F[i]) // so that equals occur
		}
		op := ops.Reduce{Fn: "max", Axes: s.axes(x.Meta.Shape), Keep: true}
		y, err := ref.Run(op, []ref.Array{x})
		if err != nil {
			s.t.Fatalf("%v", err)
		}
		return sample{ops.ReduceMaxGrad{Axes: op.Axes}, []ref.Array{x, y[0], s.normal(y[0].Meta.Shape...)}, 0}
	},
	"sum_to": func(s source) sample {
		x, to := drawStretch(s)
		if rapid.IntRange(0, 4).Draw(s.t, "narrow") == 0 {
			x, to = shape.Of(s.size("rows", 30000), s.size("columns", 40)), shape.Of(1)
			to[0] = x[1]
		}
		return sample{ops.SumTo{Shape: to}, []ref.Array{s.normal(x...)}, 1e-6}
	},
	"broadcast_to": func(s source) sample {
		to, x := drawStretch(s)
		if s.bool("int") {
			return sample{ops.BroadcastTo{Shape: to}, []ref.Array{s.ids(99, x...)}, 0}
		}
		return sample{ops.BroadcastTo{Shape: to}, []ref.Array{s.normal(x...)}, 0}
	},
	"sum_squares": func(s source) sample {
		return sample{ops.SumSquares{}, []ref.Array{s.normal(s.shape("x", 0, 2, 500)...)}, 1e-6}
	},
	"reshape": func(s source) sample {
		x := s.shape("x", 2, 3, 30)
		return sample{ops.Reshape{Shape: shape.Of(x[1:].Elems(), x[0])}, []ref.Array{s.normal(x...)}, 0}
	},
	"transpose": func(s source) sample {
		x := s.shape("x", 1, 4, 12)
		perm := make([]int, len(x))
		for i := range perm {
			perm[i] = i
		}
		return sample{ops.Transpose{Perm: rapid.Permutation(perm).Draw(s.t, "perm")}, []ref.Array{s.normal(x...)}, 0}
	},
	"slice": func(s source) sample {
		x, start, stop := drawSlice(s)
		return sample{ops.Slice{Start: start, Stop: stop}, []ref.Array{s.normal(x...)}, 0}
	},
	"slice_grad": func(s source) sample {
		x, start, stop := drawSlice(s)
		d := make([]int, len(x))
		for i := range d {
			d[i] = stop[i] - start[i]
		}
		return sample{ops.SliceGrad{Start: start, Shape: x}, []ref.Array{s.normal(d...)}, 0}
	},
	"concat": func(s source) sample {
		x := s.shape("x", 1, 3, 9)
		axis := rapid.IntRange(0, len(x)-1).Draw(s.t, "axis")
		var in []ref.Array
		for range s.size("inputs", 4) {
			d := slices.Clone(x)
			d[axis] = s.dim("part", 9)
			in = append(in, s.normal(d...))
		}
		return sample{ops.Concat{Axis: axis}, in, 0}
	},
}

// drawStretch is a shape and one that broadcasts to it.
func drawStretch(s source) (to, from shape.Shape) {
	to = s.shape("x", 0, 4, 16)
	if rapid.IntRange(0, 4).Draw(s.t, "narrow") == 0 {
		to = shape.Of(s.size("n", 3), s.size("rows", 3000), s.size("few", 25))
	}
	from = to[rapid.IntRange(0, len(to)).Draw(s.t, "from"):].Clone()
	for i := range from {
		if s.bool("stretch") {
			from[i] = 1
		}
	}
	return to, from
}

func drawSlice(s source) (x shape.Shape, start, stop []int) {
	x = s.shape("x", 1, 4, 9)
	if rapid.IntRange(0, 4).Draw(s.t, "narrow") == 0 {
		x = shape.Of(s.size("n", 3), s.size("rows", 3000), s.size("few", 25))
	}
	for _, d := range x {
		lo := rapid.IntRange(0, d).Draw(s.t, "start")
		start, stop = append(start, lo), append(stop, rapid.IntRange(lo, d).Draw(s.t, "stop"))
	}
	return x, start, stop
}

var productCases = map[string]func(s source) sample{
	"matmul":        drawMatMul,
	"conv2d":        func(s source) sample { return drawConv(s, "y") },
	"conv2d_grad_x": func(s source) sample { return drawConv(s, "x") },
	"conv2d_grad_w": func(s source) sample { return drawConv(s, "w") },
	"max_pool2d":    func(s source) sample { x, p := drawPool(s); return sample{p, []ref.Array{x}, 0} },
	"avg_pool2d":    func(s source) sample { x, p := drawPool(s); return sample{ops.AvgPool2D(p), []ref.Array{x}, 1e-6} },
	"avg_pool2d_grad": func(s source) sample {
		x, p := drawPool(s)
		y := mustRun(s, p, x)
		h, w := x.Meta.Shape[2], x.Meta.Shape[3]
		return sample{ops.AvgPool2DGrad{Kernel: p.Kernel, Stride: p.Stride, Pad: p.Pad, H: h, W: w}, []ref.Array{s.normal(y[0].Meta.Shape...)}, 1e-6}
	},
	"max_pool2d_grad": func(s source) sample {
		x, p := drawPool(s)
		y := mustRun(s, p, x)
		return sample{ops.MaxPool2DGrad{H: x.Meta.Shape[2], W: x.Meta.Shape[3]}, []ref.Array{y[1], s.normal(y[1].Meta.Shape...)}, 1e-6}
	},
	"causal_attention": func(s source) sample {
		op, in := drawAttention(s)
		return sample{op, in, 2e-5}
	},
	"causal_attention_grad": func(s source) sample {
		op, in := drawAttention(s)
		y := mustRun(s, op, in...)
		for i := range y { // what the device would hold
			for j, v := range y[i].F {
				y[i].F[j] = float64(float32(v))
			}
		}
		all := append([]ref.Array{in[0], y[0], y[1], s.normal(y[0].Meta.Shape...)}, in[1:]...)
		return sample{ops.CausalSelfAttentionGrad(op), all, 5e-5}
	},
}

func mustRun(s source, op graph.Op, in ...ref.Array) []ref.Array {
	y, err := ref.Run(op, in)
	if err != nil {
		s.t.Fatalf("reference: %v", err)
	}
	return y
}

func drawMatMul(s source) sample {
	op := ops.MatMul{TransA: s.bool("transA"), TransB: s.bool("transB"), BF16: s.bool("bf16")}
	m, n, k := s.dim("m", 70), s.dim("n", 130), s.dim("k", 300)
	batch := s.shape("batch", 0, 2, 3)
	a, b := []int{m, k}, []int{k, n}
	if op.TransA {
		a = []int{k, m}
	}
	if op.TransB {
		b = []int{n, k}
	}
	a = append(batch.Clone(), a...)
	if op.TransA || s.bool("both") {
		b = append(batch.Clone(), b...)
	}
	return sample{op, []ref.Array{s.normal(a...), s.normal(b...)}, 1e-4}
}

func drawConv(s source, which string) sample {
	groups := s.size("groups", 3)
	n, c, o := s.dim("n", 3), groups*s.size("c", 4), groups*s.size("o", 5)
	kh, kw := s.size("kh", 4), s.size("kw", 4)
	if s.bool("many channels") {
		c, o = groups*s.size("more c", 40), groups*s.size("more o", 40)
	}
	stride, pad := s.size("stride", 3), rapid.IntRange(0, 3).Draw(s.t, "pad")
	switch s.size("kind", 4) {
	case 1: // windows side by side
		kw, stride, pad = kh, kh, 0
	case 2: // each channel alone
		groups = s.size("channels", 40)
		c, o = groups, groups
	}
	h := max(1, kh-2*pad) + rapid.IntRange(0, 12).Draw(s.t, "h")
	w := max(1, kw-2*pad) + rapid.IntRange(0, 40).Draw(s.t, "w")
	x, f := s.normal(n, c, h, w), s.normal(o, c/groups, kh, kw)
	op := ops.Conv2D{Stride: stride, Pad: pad, Groups: groups}
	y, err := op.Infer([]shape.Meta{x.Meta, f.Meta})
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	dy := s.normal(y[0].Shape...)
	odd := x // not the weights: padding is multiplied with them
	if which == "x" {
		odd = dy
	}
	if len(odd.F) > 0 && s.bool("not finite") {
		odd.F[s.rng.IntN(len(odd.F))] = []float64{math.Inf(1), math.NaN()}[s.rng.IntN(2)]
	}
	switch which {
	case "x":
		return sample{ops.Conv2DGradX{Stride: stride, Pad: pad, Groups: groups, H: h, W: w}, []ref.Array{f, dy}, 1e-4}
	case "w":
		return sample{ops.Conv2DGradW{Stride: stride, Pad: pad, Groups: groups, KH: kh, KW: kw}, []ref.Array{x, dy}, 2e-4}
	}
	return sample{op, []ref.Array{x, f}, 1e-4}
}

func drawPool(s source) (ref.Array, ops.MaxPool2D) {
	k := s.size("kernel", 4)
	p := ops.MaxPool2D{Kernel: k, Stride: s.size("stride", 5), Pad: rapid.IntRange(0, k/2).Draw(s.t, "pad")}
	if s.bool("side by side") {
		k, p = 2, ops.MaxPool2D{Kernel: 2, Stride: 2}
	}
	h, w := k+rapid.IntRange(0, 9).Draw(s.t, "h"), k+rapid.IntRange(0, 70).Draw(s.t, "w")
	if s.bool("low") { // as high as the windows must have, with padding
		h = max(1, k-2*p.Pad) + rapid.IntRange(0, 2).Draw(s.t, "more h")
	}
	x := s.normal(s.dim("n", 3), s.dim("c", 3), h, w)
	for i := range x.F {
		x.F[i] = math.Round(4*x.F[i]) / 4 // so that equals occur
	}
	return x, p
}

func drawAttention(s source) (ops.CausalSelfAttention, []ref.Array) {
	op := ops.CausalSelfAttention{Heads: s.size("heads", 3), Seed: 5, ID: 8}
	in := []ref.Array{s.normal(s.dim("b", 3), s.dim("t", 70), 3*op.Heads*s.size("width", 9))}
	if s.bool("dropout") {
		op.P = 0.3
		in = append(in, s.ids(100), s.ids(1000))
	}
	return op, in
}

var rowCases = map[string]func(s source) sample{
	"softmax":          func(s source) sample { return sample{ops.Softmax{}, []ref.Array{drawRows(s)}, 1e-6} },
	"log_softmax":      func(s source) sample { return sample{ops.LogSoftmax{}, []ref.Array{drawRows(s)}, 1e-6} },
	"softmax_grad":     func(s source) sample { return drawRowGrad(s, ops.Softmax{}, ops.SoftmaxGrad{}) },
	"log_softmax_grad": func(s source) sample { return drawRowGrad(s, ops.LogSoftmax{}, ops.LogSoftmaxGrad{}) },
	"cross_entropy": func(s source) sample {
		x, t := drawClasses(s)
		return sample{ops.CrossEntropy{}, []ref.Array{x, t}, 1e-6}
	},
	"cross_entropy_grad": func(s source) sample {
		x, t := drawClasses(s)
		lse := mustRun(s, ops.CrossEntropy{}, x, t)[1]
		for i, v := range lse.F {
			lse.F[i] = float64(float32(v))
		}
		return sample{ops.CrossEntropyGrad{}, []ref.Array{x, t, lse, s.normal()}, 2e-6}
	},
	"correct": func(s source) sample {
		x, t := drawClasses(s)
		return sample{ops.Correct{}, []ref.Array{x, t}, 0}
	},
	"mse":            func(s source) sample { return drawLoss(s, ops.MSE{}) },
	"bce":            func(s source) sample { return drawLoss(s, ops.BCE{}) },
	"binary_correct": func(s source) sample { return drawLoss(s, ops.BinaryCorrect{}) },
	"mse_grad":       func(s source) sample { return drawLoss(s, ops.MSEGrad{}, s.normal()) },
	"bce_grad":       func(s source) sample { return drawLoss(s, ops.BCEGrad{}, s.normal()) },
	"check_finite":   func(s source) sample { return sample{ops.CheckFinite{}, []ref.Array{s.normal()}, 0} },
	"layer_norm": func(s source) sample {
		x := s.normal(append(s.shape("x", 0, 2, 40), s.size("d", 90))...)
		d := x.Meta.Shape.Dim(-1)
		return sample{ops.LayerNorm{Eps: 1e-5}, []ref.Array{x, s.normal(d), s.normal(d)}, 2e-5}
	},
	"layer_norm_grad": func(s source) sample {
		lead, d := s.shape("x", 0, 2, 30), s.size("d", 90)
		x := append(lead.Clone(), d)
		return sample{ops.LayerNormGrad{}, []ref.Array{
			s.normal(x...), s.normal(d), s.normal(lead...), s.floats(0.5, 2, lead...), s.normal(x...),
		}, 5e-5}
	},
	"batch_norm": func(s source) sample {
		x := drawChannels(s)
		return sample{ops.BatchNorm{Eps: 1e-5}, []ref.Array{s.normal(x...), s.normal(x[1]), s.normal(x[1])}, 1e-4}
	},
	"batch_norm_grad": func(s source) sample {
		x := drawChannels(s)
		return sample{ops.BatchNormGrad{}, []ref.Array{
			s.normal(x...), s.normal(x[1]), s.normal(x[1]), s.floats(0.5, 2, x[1]), s.normal(x...),
		}, 5e-5}
	},
	"batch_norm_eval": func(s source) sample {
		x := drawChannels(s)
		return sample{ops.BatchNormEval{Eps: 1e-5}, []ref.Array{
			s.normal(x...), s.normal(x[1]), s.normal(x[1]), s.normal(x[1]), s.floats(0.5, 2, x[1]),
		}, 1e-5}
	},
	"dropout": func(s source) sample {
		op := ops.Dropout{P: rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.9}).Draw(s.t, "p"), Seed: 3, ID: 4}
		return sample{op, []ref.Array{s.normal(s.shape("x", 1, 3, 40)...), s.ids(100), s.ids(1000)}, 1e-6}
	},
	"gather": func(s source) sample {
		v := s.size("v", 50)
		return sample{ops.Gather{}, []ref.Array{s.normal(v, s.dim("d", 40)), s.ids(v, s.shape("ids", 0, 2, 20)...)}, 0}
	},
	"scatter_add": func(s source) sample {
		v := s.size("v", 50)
		ids := s.ids(v, s.shape("ids", 0, 2, 20)...)
		return sample{ops.ScatterAdd{Rows: v}, []ref.Array{ids, s.normal(append(ids.Meta.Shape.Clone(), s.dim("d", 200))...)}, 2e-5}
	},
}

func drawRows(s source) ref.Array {
	most := rapid.SampledFrom([]int{90, 17}).Draw(s.t, "most columns")
	return s.odd(s.floats(-9, 9, append(s.shape("x", 0, 2, 30), s.size("c", most))...))
}

func drawRowGrad(s source, f, grad graph.Op) sample {
	y := mustRun(s, f, drawRows(s))[0]
	for i, v := range y.F {
		y.F[i] = float64(float32(v))
	}
	return sample{grad, []ref.Array{y, s.normal(y.Meta.Shape...)}, 2e-6}
}

func drawClasses(s source) (logits, targets ref.Array) {
	x := drawRows(s)
	lead := x.Meta.Shape[:x.Meta.Shape.Rank()-1]
	return x, s.ids(x.Meta.Shape.Dim(-1), lead...)
}

func drawLoss(s source, op graph.Op, more ...ref.Array) sample {
	x := s.shape("x", 0, 2, 120)
	return sample{op, append([]ref.Array{s.normal(x...), s.floats(0, 1, x...)}, more...), 2e-6}
}

func drawChannels(s source) shape.Shape {
	if s.bool("small planes") {
		x := shape.Of(s.size("rows", 40), s.size("columns", 300))
		if s.bool("many rows") { // so that rows are shared
			x = shape.Of(500+s.size("more rows", 1000), s.size("columns", 200))
		}
		if s.bool("plane") {
			x = append(shape.Of(x[0], max(1, x[1]/4)), s.shapeOf(1, 2, 4)...)
		}
		return x
	}
	return append(shape.Of(s.size("n", 9), s.size("c", 9)), s.shapeOf(0, 2, 12)...)
}

// shapeOf draws dimensions of at least 1.
func (s source) shapeOf(minRank, maxRank, most int) shape.Shape {
	out := make(shape.Shape, rapid.IntRange(minRank, maxRank).Draw(s.t, "rank"))
	for i := range out {
		out[i] = s.size("dim", most)
	}
	return out
}

var updateCases = map[string]func(s source) sample{
	"sgd": func(s source) sample {
		op := ops.SGD{WeightDecay: 0.1, Scale: 0.25, Clip: s.bool("clip")}
		x := s.shape("x", 0, 2, 90)
		in := []ref.Array{s.normal(x...), s.normal(x...), s.floats(0, 1)}
		if s.bool("momentum") {
			op.Momentum, op.Nesterov = 0.9, s.bool("nesterov")
			in = append(in, s.normal(x...))
		}
		if op.Clip {
			in = append(in, s.floats(0, 1))
		}
		return sample{op, in, 1e-6}
	},
	"adam": func(s source) sample {
		op := ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.1, Scale: 0.25, Decoupled: s.bool("decoupled"), Clip: s.bool("clip")}
		x := s.shape("x", 0, 2, 90)
		in := []ref.Array{s.normal(x...), s.normal(x...), s.normal(x...), s.floats(0.01, 1, x...), s.ids(1000), s.floats(0, 0.1)}
		if op.Clip {
			in = append(in, s.floats(0, 1))
		}
		return sample{op, in, 5e-6}
	},
	"clip_factor": func(s source) sample {
		in := []ref.Array{s.floats(0, 9)}
		for range s.dim("more", 3) {
			in = append(in, s.floats(0, 9))
		}
		return sample{ops.ClipFactor{MaxNorm: 1, Scale: 0.5}, in, 1e-6}
	},
	"learning_rate": func(s source) sample {
		schedule := rapid.SampledFrom([]string{"constant", "step", "cosine", "linear"}).Draw(s.t, "schedule")
		op := ops.LearningRate{Schedule: schedule, Base: 1, Min: 0.1, Gamma: 0.5, Warmup: 10, Total: 100, Every: 7}
		return sample{op, []ref.Array{s.ids(130)}, 1e-6}
	},
	"increment": func(s source) sample { return sample{ops.Increment{}, []ref.Array{s.ids(99)}, 0} },
	"ring_write": func(s source) sample {
		return sample{ops.RingWrite{Scale: 0.5}, []ref.Array{s.normal(s.size("ring", 9)), s.ids(99), s.normal()}, 1e-6}
	},
}

func TestKernelsAgreeWithReference(t *testing.T) { atLevels(t, testAgreement) }

func testAgreement(t *testing.T) {
	for _, kind := range ref.Kinds() {
		t.Run(kind, func(t *testing.T) {
			draw := cases[kind]
			if draw == nil {
				t.Fatalf("no case draws %s", kind)
			}
			rapid.Check(t, func(t *rapid.T) {
				s := newSource(t)
				checkSample(t, draw(s), 1)
			})
		})
	}
}

func TestEveryReferenceOpHasAKernel(t *testing.T) {
	have := map[string]bool{}
	for name := range table {
		kind, _, _ := strings.Cut(name, "(")
		have[kind] = true
	}
	for _, kind := range ref.Kinds() {
		if !have[kind] {
			t.Errorf("no kernel computes %s", kind)
		}
		delete(have, kind)
	}
	if len(have) > 0 {
		t.Errorf("kernels without a reference: %v", slices.Sorted(maps.Keys(have)))
	}
}

func TestRunAllocatesNothing(t *testing.T) { atLevels(t, testAllocations) }

func testAllocations(t *testing.T) {
	for _, kind := range ref.Kinds() {
		t.Run(kind, func(t *testing.T) {
			gen := rapid.Custom(func(t *rapid.T) sample { return cases[kind](newSource(t)) })
			for seed := range 5 {
				s := gen.Example(seed)
				l, err := prepare(s.op, s.in, nil)
				if err != nil {
					t.Fatal(err)
				}
				n := testing.AllocsPerRun(3, func() {
					if err := l.kernel.Run(serial{}, &l.args); err != nil {
						t.Fatal(err)
					}
				})
				if n != 0 {
					t.Fatalf("%v allocates %v times", l.node, n)
				}
			}
		})
	}
}

func TestEveryOpHasACase(t *testing.T) {
	for _, kind := range ops.Kinds() {
		if cases[kind] == nil {
			t.Errorf("no case draws %s", kind)
		}
	}
}

func TestUnsupportedSaysWhy(t *testing.T) {
	n := &graph.Node{Op: ops.MatMul{},
		In:  []*graph.Value{{Meta: shape.I32(2, 2)}, {Meta: shape.F32(2, 2)}},
		Out: []*graph.Value{{Meta: shape.F32(2, 2)}}}
	_, err := New(n)
	if !errors.Is(err, device.ErrUnsupported) || !strings.Contains(err.Error(), "matmul(i32,f32)->f32") {
		t.Fatalf("got %v", err)
	}
}

func TestDataErrors(t *testing.T) {
	table, bad := ref.Floats(make([]float64, 65*2), 65, 2), ref.Ints([]int32{1, 2, 3, 70, -1}, 5)
	logits := ref.Floats(make([]float64, 5*65), 5, 65)
	lse, one := ref.Floats(make([]float64, 5), 5), ref.Floats([]float64{1})
	for _, c := range []struct {
		op   graph.Op
		in   []ref.Array
		want string
	}{
		{ops.Gather{}, []ref.Array{table, bad}, "token 70 at position 3 is outside the vocabulary of 65"},
		{ops.ScatterAdd{Rows: 65}, []ref.Array{bad, ref.Floats(make([]float64, 10), 5, 2)}, "token 70 at position 3 is outside the vocabulary of 65"},
		{ops.CrossEntropy{}, []ref.Array{logits, bad}, "target 70 at position 3 is outside the 65 classes"},
		{ops.CrossEntropyGrad{}, []ref.Array{logits, bad, lse, one}, "target 70 at position 3 is outside the 65 classes"},
		{ops.Correct{}, []ref.Array{logits, bad}, "target 70 at position 3 is outside the 65 classes"},
		{ops.MaxPool2DGrad{H: 2, W: 2}, []ref.Array{ref.Ints([]int32{4}, 1, 1, 1, 1), ref.Floats([]float64{1}, 1, 1, 1, 1)}, "index 4 at position 0"},
	} {
		l, err := prepare(c.op, c.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.run(serial{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", graph.OpString(c.op), err, c.want)
		}
	}
}

func TestCheckFinite(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		l, err := prepare(ops.CheckFinite{}, []ref.Array{ref.Floats([]float64{v})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var nf *device.NonFiniteError
		if err := l.run(serial{}); !errors.As(err, &nf) || !errors.Is(err, device.ErrNonFinite) {
			t.Errorf("%v: got %v", v, err)
		}
	}
}

// TestNonFinite checks what IEEE 754 asks for where a comparison could lose it.
func TestNonFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	f := ref.Floats
	for _, c := range []struct {
		op   graph.Op
		in   []ref.Array
		want []float64
	}{
		{ops.Unary{Fn: "relu"}, []ref.Array{f([]float64{nan, -nan, inf, -inf, -0.5}, 5)}, []float64{nan, nan, inf, 0, 0}},
		{ops.Unary{Fn: "exp"}, []ref.Array{f([]float64{nan, inf, -inf, 1000, -1000}, 5)}, []float64{nan, inf, 0, inf, 0}},
		{ops.Unary{Fn: "tanh"}, []ref.Array{f([]float64{nan, inf, -inf}, 3)}, []float64{nan, 1, -1}},
		{ops.Unary{Fn: "sigmoid"}, []ref.Array{f([]float64{nan, inf, -inf}, 3)}, []float64{nan, 1, 0}},
		{ops.Unary{Fn: "log"}, []ref.Array{f([]float64{nan, 0, -1, inf}, 4)}, []float64{nan, -inf, nan, inf}},
		{ops.UnaryGrad{Fn: "relu"}, []ref.Array{f([]float64{nan, 0, 1}, 3), f([]float64{1, nan, inf}, 3)}, []float64{1, 0, inf}},
		{ops.Reduce{Fn: "max"}, []ref.Array{f([]float64{1, nan, 3}, 3)}, []float64{nan}},
		{ops.MaxPool2D{Kernel: 2, Stride: 2}, []ref.Array{f([]float64{1, nan, 3, 2}, 1, 1, 2, 2)}, []float64{nan}},
		{ops.Softmax{}, []ref.Array{f([]float64{1, nan}, 1, 2)}, []float64{nan, nan}},
		{ops.ClipFactor{MaxNorm: 1, Scale: 1}, []ref.Array{f([]float64{nan})}, []float64{nan}},
	} {
		l := runSample(t, sample{c.op, c.in, 0}, nil, serial{})
		compare(t, l.node, 0, l.out[0].mem, f(c.want, l.node.Out[0].Meta.Shape...), 0)
	}
}

// TestBatchNormOfEmptyPlanes has channels without pixels.
func TestBatchNormOfEmptyPlanes(t *testing.T) { atLevels(t, testEmptyPlanes) }

func testEmptyPlanes(t *testing.T) {
	of, each := func(dims ...int) ref.Array { return ref.New(shape.F32(dims...)) }, ref.New(shape.F32(24))
	for _, x := range []ref.Array{of(2, 24, 0, 3), of(0, 24, 2, 2)} {
		checkSample(t, sample{ops.BatchNormEval{Eps: 1e-5}, []ref.Array{x, each, each, each, each}, 0}, 1)
	}
}

// TestMaxPoolOfNonFinite puts NaN, infinities and zeros of both signs into
// windows side by side, and wants the first NaN, else the first largest.
func TestMaxPoolOfNonFinite(t *testing.T) { atLevels(t, testMaxPoolOfNonFinite) }

func testMaxPoolOfNonFinite(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	some := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1}
	for _, w := range []int{2, 5, 14, 28, 33, 64, 71} {
		for _, op := range []ops.MaxPool2D{{Kernel: 2, Stride: 2}, {Kernel: 3, Stride: 2, Pad: 1}, {Kernel: 3, Stride: 1, Pad: 1}, {Kernel: 2, Stride: 1}, {Kernel: 5, Stride: 2, Pad: 2}, {Kernel: 3, Stride: 3, Pad: 1}, {Kernel: 4, Stride: 5, Pad: 2}} {
			x := noise(2, 3, 7, w)
			for i := range x.F {
				x.F[i] = some[rng.IntN(len(some))]
			}
			l := runSample(t, sample{op, []ref.Array{x}, 0}, nil, serial{})
			y, idx, in := shape.View[float32](l.out[0].mem), shape.View[int32](l.out[1].mem), shape.View[float32](l.in[0].mem)
			s := l.node.Out[0].Meta.Shape
			k := pool2dOf(x.Meta.Shape, s, op.Kernel, op.Stride, op.Pad)
			for i := range y {
				ow, oh, plane := i%s[3], i/s[3]%s[2], in[i/(s[2]*s[3])*7*w:]
				h0, h1 := k.window(oh, 7)
				w0, w1 := k.window(ow, w)
				want := largest(plane, w, h0, h1, w0, w1)
				if int(idx[i]) != want || math.Float32bits(y[i]) != math.Float32bits(plane[want]) {
					t.Fatalf("%+v, width %d: window %d is %v at %d, want %v at %d", op, w, i, y[i], idx[i], plane[want], want)
				}
			}
		}
	}
}

// TestMaxPoolGradOfOtherWindows gives indices of windows that overlap, in planes
// of the sides that windows of 2x2 would have.
func TestMaxPoolGradOfOtherWindows(t *testing.T) { atLevels(t, testMaxPoolGradOfOtherWindows) }

func testMaxPoolGradOfOtherWindows(t *testing.T) {
	idx := ref.New(shape.I32(1, 2, 5, 20))
	for i := range idx.I {
		idx.I[i] = int32(i * i % (10 * 41))
	}
	checkSample(t, sample{ops.MaxPool2DGrad{H: 10, W: 41}, []ref.Array{idx, noise(1, 2, 5, 20)}, 1e-6}, 5)
}
