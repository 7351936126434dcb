package ops_test

import (
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// sample is one application of an op, with its inputs.
type sample struct {
	op   graph.Op
	in   []ref.Array
	diff []int // inputs with a gradient
}

// draws makes random samples, by kind; kinds that are gradients of others are
// in vias instead.
var draws = func() map[string]func(t *rapid.T) sample {
	all := map[string]func(t *rapid.T) sample{
		"less": drawCompare("less"), "equal": drawCompare("equal"), "select": drawSelect,
		"affine": drawAffine, "lerp": drawLerp, "fill": drawFill, "matmul": drawMatMul, "conv2d": drawConv,
		"max_pool2d": drawMaxPool, "avg_pool2d": drawAvgPool,
		"sum_to": drawSumTo, "broadcast_to": drawBroadcastTo, "sum_squares": drawSumSquares,
		"reshape": drawReshape, "transpose": drawTranspose, "slice": drawSlice, "concat": drawConcat, "cast": drawCast,
		"softmax": drawSoftmax, "log_softmax": drawLogSoftmax,
		"cross_entropy": drawCrossEntropy, "mse": drawMSE, "bce": drawBCE,
		"correct": drawCorrect, "binary_correct": drawBinaryCorrect, "check_finite": drawCheckFinite,
		"outcome": drawOutcome, "binary_outcome": drawBinaryOutcome, "rank": drawRank, "tally": drawTally,
		"layer_norm": drawLayerNorm, "batch_norm": drawBatchNorm, "batch_norm_eval": drawBatchNormEval,
		"dropout": drawDropout, "gather": drawGather, "attention": drawAttention, "rotary": drawRotary, "rms_norm": drawRMSNorm,
		"sgd": drawSGD, "adam": drawAdam, "lion": drawLion, "clip_factor": drawClipFactor, "grad_norm": drawGradNorm, "learning_rate": drawLearningRate,
		"increment": drawIncrement, "ring_write": drawRingWrite, "averaged": drawAveraged, "ranged": drawRanged,
		"square_parts": drawSquareParts, "square_total": drawSquareTotal,
		"cached_attention": drawCachedAttention, "cache_write": drawCacheWrite, "state_write": drawStateWrite, "positions": drawPositions,
		"last_row": drawLastRow, "sample": drawToken, "repetition_penalty": drawRepetitionPenalty, "seen_write": drawSeenWrite,
		"pad_with": drawPadWith, "position_weights": drawPositionWeights, "nonzero": drawNonzero, "unique": drawUnique,
	}
	for _, fn := range []string{"add", "sub", "mul", "div"} {
		all[fn] = drawBinary(fn)
	}
	for _, fn := range []string{"swiglu", "geglu", "geglu_tanh"} {
		all[fn] = drawGated(fn)
	}
	for _, fn := range []string{"neg", "relu", "gelu_tanh", "gelu_erf", "silu", "sigmoid", "tanh", "exp", "square", "abs"} {
		all[fn] = drawUnary(fn, false)
	}
	for _, fn := range []string{"log", "sqrt", "rsqrt"} {
		all[fn] = drawUnary(fn, true)
	}
	for _, fn := range []string{"sum", "mean", "max"} {
		all["reduce_"+fn] = drawReduce(fn)
	}
	return all
}()

// vias says which op's gradient an op is part of: it is exercised by that
// op's finite differences.
var vias = map[string]string{
	"relu_grad": "relu", "gelu_tanh_grad": "gelu_tanh", "gelu_erf_grad": "gelu_erf", "silu_grad": "silu",
	"sigmoid_grad": "sigmoid", "tanh_grad": "tanh", "exp_grad": "exp", "log_grad": "log", "sqrt_grad": "sqrt",
	"rsqrt_grad": "rsqrt", "square_grad": "square", "abs_grad": "abs", "select_grad": "select",
	"conv2d_grad_x": "conv2d", "conv2d_grad_w": "conv2d",
	"max_pool2d_grad": "max_pool2d", "avg_pool2d_grad": "avg_pool2d", "reduce_max_grad": "reduce_max",
	"slice_grad": "slice", "softmax_grad": "softmax", "log_softmax_grad": "log_softmax",
	"cross_entropy_grad": "cross_entropy", "mse_grad": "mse", "bce_grad": "bce",
	"layer_norm_grad": "layer_norm", "batch_norm_grad": "batch_norm",
	"scatter_add": "gather", "attention_grad": "attention", "rms_norm_grad": "rms_norm",
}

// flat lists the kinds through which no gradient flows.
var flat = []string{"fill", "cast", "less", "equal", "correct", "binary_correct", "outcome", "binary_outcome", "rank", "tally", "sgd", "adam", "lion", "clip_factor", "grad_norm", "learning_rate", "increment", "ring_write", "averaged", "ranged", "square_parts", "square_total",
	"cache_write", "state_write", "seen_write", "positions", "sample", "pad_with", "position_weights", "nonzero", "unique"}

// generating lists the kinds that refuse to be differentiated.
var generating = []string{"cached_attention", "last_row", "repetition_penalty"}

func num(t *rapid.T, lo, hi int, name string) int { return rapid.IntRange(lo, hi).Draw(t, name) }

// dims draws a shape of ranks lo to hi with dimensions 1 to 4.
func dims(t *rapid.T, lo, hi int) []int {
	return rapid.SliceOfN(rapid.IntRange(1, 4), lo, hi).Draw(t, "shape")
}

// spread fills a tensor with numbers between lo and hi that differ from each
// other, and from lo and hi, by much more than a finite difference: nothing
// sits near a kink or a tie.
func spread(t *rapid.T, lo, hi float64, dims ...int) ref.Array {
	a := ref.New(shape.F32(dims...))
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	for i, p := range r.Perm(len(a.F)) {
		a.F[i] = lo + (hi-lo)*(float64(p)+0.37)/float64(len(a.F))
	}
	return a
}

func signed(t *rapid.T, dims ...int) ref.Array   { return spread(t, -2, 2, dims...) }
func positive(t *rapid.T, dims ...int) ref.Array { return spread(t, 0.5, 3, dims...) }

func indices(t *rapid.T, n int, dims ...int) ref.Array {
	a := ref.New(shape.I32(dims...))
	for i := range a.I {
		a.I[i] = int32(num(t, 0, n-1, "index"))
	}
	return a
}

func scalarF(f float64) ref.Array { return ref.Floats([]float64{f}) }
func scalarI(i int32) ref.Array   { return ref.Ints([]int32{i}) }

// shrunk is a shape that broadcasts to s.
func shrunk(t *rapid.T, s []int) []int {
	out := slices.Clone(s)
	for i := range out {
		if rapid.Bool().Draw(t, "stretch") {
			out[i] = 1
		}
	}
	return out[leadingOnes(t, out):]
}

// leadingOnes draws how many leading dimensions of 1 to leave out.
func leadingOnes(t *rapid.T, s []int) int {
	n := 0
	for n < len(s) && s[n] == 1 {
		n++
	}
	return num(t, 0, n, "dropped")
}

func drawBinary(fn string) func(t *rapid.T) sample {
	return func(t *rapid.T) sample {
		s := dims(t, 0, 3)
		x, y := shrunk(t, s), shrunk(t, s)
		return sample{op: ops.Binary{Fn: fn}, in: []ref.Array{signed(t, x...), positive(t, y...)}, diff: []int{0, 1}}
	}
}

func drawUnary(fn string, pos bool) func(t *rapid.T) sample {
	return func(t *rapid.T) sample {
		x := signed(t, dims(t, 0, 3)...)
		if pos {
			x = positive(t, x.Meta.Shape...)
		}
		return sample{op: ops.Unary{Fn: fn}, in: []ref.Array{x}, diff: []int{0}}
	}
}

func drawAffine(t *rapid.T) sample {
	o := ops.Affine{Scale: rapid.SampledFrom([]float64{1, -2, 0.5}).Draw(t, "scale"), Shift: 0.25}
	return sample{op: o, in: []ref.Array{signed(t, dims(t, 0, 3)...)}, diff: []int{0}}
}

func drawCompare(fn string) func(t *rapid.T) sample {
	return func(t *rapid.T) sample {
		s := dims(t, 0, 3)
		return sample{op: ops.Compare{Fn: fn}, in: []ref.Array{choices(t, s...), choices(t, s...)}}
	}
}

func drawSelect(t *rapid.T) sample {
	s := dims(t, 0, 3)
	return sample{op: ops.Select{}, in: []ref.Array{choices(t, s...), signed(t, s...), signed(t, s...)}, diff: []int{1, 2}}
}

// choices is zeros and ones.
func choices(t *rapid.T, dims ...int) ref.Array {
	a := ref.New(shape.F32(dims...))
	for i := range a.F {
		a.F[i] = float64(num(t, 0, 1, "choice"))
	}
	return a
}

func drawLerp(t *rapid.T) sample {
	s := dims(t, 0, 3)
	return sample{op: ops.Lerp{T: 0.1}, in: []ref.Array{signed(t, s...), signed(t, s...)}, diff: []int{0, 1}}
}

func drawFill(t *rapid.T) sample {
	return sample{op: ops.Fill{Meta: shape.F32(dims(t, 0, 3)...), Value: 1.5}}
}

func drawMatMul(t *rapid.T) sample {
	m, n, k := num(t, 1, 4, "m"), num(t, 1, 4, "n"), num(t, 1, 4, "k")
	o := ops.MatMul{TransA: rapid.Bool().Draw(t, "transA"), TransB: rapid.Bool().Draw(t, "transB")}
	batch := dims(t, 0, 2)
	bBatch := batch
	if rapid.Bool().Draw(t, "weight") {
		o.TransA, bBatch = false, nil
	}
	a, b := []int{m, k}, []int{k, n}
	if o.TransA {
		a = []int{k, m}
	}
	if o.TransB {
		b = []int{n, k}
	}
	a, b = slices.Concat(batch, a), slices.Concat(bBatch, b)
	return sample{op: o, in: []ref.Array{signed(t, a...), signed(t, b...)}, diff: []int{0, 1}}
}

func drawConv(t *rapid.T) sample {
	g, cg, og := num(t, 1, 3, "groups"), num(t, 1, 2, "channels"), num(t, 1, 2, "outputs")
	kh, kw := num(t, 1, 3, "kh"), num(t, 1, 3, "kw")
	o := ops.Conv2D{Stride: num(t, 1, 3, "stride"), Pad: num(t, 0, 2, "pad"), Groups: g, Dilation: num(t, 0, 3, "dilation")}
	h := max(1, o.Span(kh)-2*o.Pad) + num(t, 0, 4, "h")
	w := max(1, o.Span(kw)-2*o.Pad) + num(t, 0, 4, "w")
	x := signed(t, num(t, 1, 2, "n"), g*cg, h, w)
	return sample{op: o, in: []ref.Array{x, signed(t, g*og, cg, kh, kw)}, diff: []int{0, 1}}
}

func drawPool(t *rapid.T) (x ref.Array, kernel, stride, pad int) {
	kernel, stride = num(t, 1, 3, "kernel"), num(t, 1, 3, "stride")
	pad = num(t, 0, kernel/2, "pad")
	h, w := max(1, kernel-2*pad)+num(t, 0, 4, "h"), max(1, kernel-2*pad)+num(t, 0, 4, "w")
	return signed(t, num(t, 1, 2, "n"), num(t, 1, 2, "c"), h, w), kernel, stride, pad
}

func drawMaxPool(t *rapid.T) sample {
	x, k, s, p := drawPool(t)
	return sample{op: ops.MaxPool2D{Kernel: k, Stride: s, Pad: p}, in: []ref.Array{x}, diff: []int{0}}
}

func drawAvgPool(t *rapid.T) sample {
	x, k, s, p := drawPool(t)
	return sample{op: ops.AvgPool2D{Kernel: k, Stride: s, Pad: p}, in: []ref.Array{x}, diff: []int{0}}
}

func drawReduce(fn string) func(t *rapid.T) sample {
	return func(t *rapid.T) sample {
		s := dims(t, 0, 3)
		o := ops.Reduce{Fn: fn, Keep: rapid.Bool().Draw(t, "keep")}
		for i := range s {
			if rapid.Bool().Draw(t, "reduce") {
				o.Axes = append(o.Axes, i)
			}
		}
		return sample{op: o, in: []ref.Array{signed(t, s...)}, diff: []int{0}}
	}
}

func drawSumTo(t *rapid.T) sample {
	s := dims(t, 0, 3)
	return sample{op: ops.SumTo{Shape: shrunk(t, s)}, in: []ref.Array{signed(t, s...)}, diff: []int{0}}
}

func drawBroadcastTo(t *rapid.T) sample {
	s := dims(t, 0, 3)
	return sample{op: ops.BroadcastTo{Shape: s}, in: []ref.Array{signed(t, shrunk(t, s)...)}, diff: []int{0}}
}

func drawSumSquares(t *rapid.T) sample {
	return sample{op: ops.SumSquares{}, in: []ref.Array{signed(t, dims(t, 0, 3)...)}, diff: []int{0}}
}

func drawReshape(t *rapid.T) sample {
	s := dims(t, 0, 3)
	to := append([]int{1}, rapid.Permutation(s).Draw(t, "to")...)
	return sample{op: ops.Reshape{Shape: to}, in: []ref.Array{signed(t, s...)}, diff: []int{0}}
}

func drawTranspose(t *rapid.T) sample {
	s := dims(t, 0, 4)
	perm := make([]int, len(s))
	for i := range perm {
		perm[i] = i
	}
	return sample{op: ops.Transpose{Perm: rapid.Permutation(perm).Draw(t, "perm")}, in: []ref.Array{signed(t, s...)}, diff: []int{0}}
}

func drawSlice(t *rapid.T) sample {
	s := dims(t, 0, 3)
	o := ops.Slice{Start: make([]int, len(s)), Stop: make([]int, len(s))}
	for i, d := range s {
		o.Start[i] = num(t, 0, d-1, "start")
		o.Stop[i] = num(t, o.Start[i]+1, d, "stop")
	}
	return sample{op: o, in: []ref.Array{signed(t, s...)}, diff: []int{0}}
}

func drawConcat(t *rapid.T) sample {
	s := dims(t, 1, 3)
	o, out := ops.Concat{Axis: num(t, 0, len(s)-1, "axis")}, sample{}
	for i := range num(t, 1, 3, "inputs") {
		x := slices.Clone(s)
		x[o.Axis] = num(t, 1, 3, "width")
		out.in, out.diff = append(out.in, signed(t, x...)), append(out.diff, i)
	}
	out.op = o
	return out
}

func drawSoftmax(t *rapid.T) sample {
	return sample{op: ops.Softmax{}, in: []ref.Array{signed(t, dims(t, 1, 3)...)}, diff: []int{0}}
}

func drawLogSoftmax(t *rapid.T) sample {
	return sample{op: ops.LogSoftmax{}, in: []ref.Array{signed(t, dims(t, 1, 3)...)}, diff: []int{0}}
}

func drawCrossEntropy(t *rapid.T) sample {
	x, targets := drawClasses(t)
	op := ops.CrossEntropy{Padded: rapid.Bool().Draw(t, "padded")}
	if op.Padded {
		targets.I[0] = -1
	}
	return sample{op: op, in: []ref.Array{x, targets}, diff: []int{0}}
}

// drawClasses draws logits and a class for each of their rows.
func drawClasses(t *rapid.T) (logits, targets ref.Array) {
	s := dims(t, 1, 3)
	return signed(t, s...), indices(t, s[len(s)-1], s[:len(s)-1]...)
}

// classified is both as inputs of an op.
func classified(t *rapid.T) []ref.Array {
	x, targets := drawClasses(t)
	return []ref.Array{x, targets}
}

func drawMSE(t *rapid.T) sample {
	s := dims(t, 0, 3)
	return sample{op: ops.MSE{}, in: []ref.Array{signed(t, s...), signed(t, s...)}, diff: []int{0, 1}}
}

func drawBCE(t *rapid.T) sample {
	s := dims(t, 0, 3)
	return sample{op: ops.BCE{}, in: []ref.Array{signed(t, s...), spread(t, 0, 1, s...)}, diff: []int{0, 1}}
}

func drawCorrect(t *rapid.T) sample {
	s := drawCrossEntropy(t)
	return sample{op: ops.Correct(s.op.(ops.CrossEntropy)), in: s.in}
}

func drawBinaryCorrect(t *rapid.T) sample {
	s := drawBCE(t)
	return sample{op: ops.BinaryCorrect{}, in: s.in}
}

func drawOutcome(t *rapid.T) sample {
	return sample{op: ops.Outcome{}, in: classified(t)}
}

func drawBinaryOutcome(t *rapid.T) sample {
	s := dims(t, 1, 3)
	return sample{op: ops.BinaryOutcome{}, in: []ref.Array{signed(t, s...), spread(t, 0, 1, s...)}}
}

func drawRank(t *rapid.T) sample {
	return sample{op: ops.Rank{}, in: classified(t)}
}

func drawTally(t *rapid.T) sample {
	n := num(t, 1, 4, "counts")
	return sample{op: ops.Tally{}, in: []ref.Array{indices(t, 9, n), indices(t, n, dims(t, 0, 2)...)}}
}

func drawNonzero(t *rapid.T) sample {
	return sample{op: ops.Nonzero{}, in: []ref.Array{choices(t, dims(t, 0, 8)...)}}
}

func drawUnique(t *rapid.T) sample {
	return sample{op: ops.Unique{}, in: []ref.Array{indices(t, 3, dims(t, 0, 3)...)}}
}

func drawCheckFinite(t *rapid.T) sample {
	return sample{op: ops.CheckFinite{}, in: []ref.Array{signed(t)}, diff: []int{0}}
}

func drawLayerNorm(t *rapid.T) sample {
	s := dims(t, 1, 3)
	d := s[len(s)-1]
	return sample{op: ops.LayerNorm{Eps: 1e-2}, in: []ref.Array{signed(t, s...), signed(t, d), signed(t, d)}, diff: []int{0, 1, 2}}
}

func drawRMSNorm(t *rapid.T) sample {
	s := dims(t, 1, 3)
	d := s[len(s)-1]
	return sample{op: ops.RMSNorm{Eps: 1e-2}, in: []ref.Array{signed(t, s...), signed(t, d)}, diff: []int{0, 1}}
}

func drawGated(fn string) func(t *rapid.T) sample {
	return func(t *rapid.T) sample {
		s := dims(t, 0, 3)
		return sample{op: ops.Gated{Fn: fn}, in: []ref.Array{signed(t, s...), signed(t, s...)}, diff: []int{0, 1}}
	}
}

func drawRotary(t *rapid.T) sample {
	scaling := rapid.SampledFrom([]ops.RotaryScaling{
		{}, {Kind: "linear", Factor: 3}, {Kind: "ntk", Factor: 2}, {Kind: "llama3", Factor: 8, Low: 1, High: 4, Context: 16},
	}).Draw(t, "scaling")
	heads, rest, batch, steps := num(t, 1, 2, "heads"), num(t, 0, 1, "rest"), num(t, 1, 2, "batch"), num(t, 1, 3, "time")
	o := ops.Rotary{Size: 2 * num(t, 2, 3, "half"), Heads: heads, Base: 50, Scaling: scaling, Inverse: rapid.Bool().Draw(t, "inverse")}
	in := []ref.Array{signed(t, batch, steps, (heads+rest)*o.Size)}
	if rapid.Bool().Draw(t, "positions") {
		in = append(in, indices(t, 1000, batch, steps))
	}
	return sample{op: o, in: in, diff: []int{0}}
}

func drawBatchNorm(t *rapid.T) sample {
	s := dims(t, 2, 4)
	return sample{op: ops.BatchNorm{Eps: 1e-2}, in: []ref.Array{signed(t, s...), signed(t, s[1]), signed(t, s[1])}, diff: []int{0, 1, 2}}
}

func drawBatchNormEval(t *rapid.T) sample {
	s := dims(t, 2, 4)
	c := s[1]
	return sample{op: ops.BatchNormEval{Eps: 1e-5}, in: []ref.Array{signed(t, s...), signed(t, c), signed(t, c), signed(t, c), positive(t, c)}, diff: []int{0, 1, 2}}
}

func drawDropout(t *rapid.T) sample {
	o := ops.Dropout{P: rapid.SampledFrom([]float64{0, 0.3, 0.9}).Draw(t, "p"), Seed: 7, ID: 3}
	return sample{op: o, in: []ref.Array{signed(t, dims(t, 1, 3)...), scalarI(5), scalarI(12)}, diff: []int{0}}
}

func drawGather(t *rapid.T) sample {
	v := num(t, 1, 4, "rows")
	return sample{op: ops.Gather{}, in: []ref.Array{signed(t, v, num(t, 1, 4, "width")), indices(t, v, dims(t, 0, 2)...)}, diff: []int{0}}
}

func drawAttention(t *rapid.T) sample {
	kv, shared, batch, steps := num(t, 1, 2, "groups"), num(t, 1, 2, "shared"), num(t, 1, 2, "batch"), num(t, 1, 4, "time")
	o := ops.Attention{Heads: kv * shared, KVHeads: kv, P: rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "p"), Seed: 7, ID: 4}
	o.Full, o.Padded, o.Window = rapid.Bool().Draw(t, "full"), rapid.Bool().Draw(t, "padded"), num(t, 0, 3, "window")
	in := []ref.Array{signed(t, batch, steps, (o.Heads+2*kv)*num(t, 1, 3, "size"))}
	if o.Padded {
		in = append(in, indices(t, steps+2, batch))
	}
	if o.Packed = !o.Full && !o.Padded && rapid.Bool().Draw(t, "packed"); o.Packed {
		in = append(in, indices(t, steps, batch, steps))
	}
	if o.P > 0 {
		in = append(in, scalarI(2), scalarI(6))
	}
	return sample{op: o, in: in, diff: []int{0}}
}

func drawSGD(t *rapid.T) sample {
	s := dims(t, 0, 2)
	o := ops.SGD{Scale: 0.5, WeightDecay: 0.1, Clip: rapid.Bool().Draw(t, "clip")}
	in := []ref.Array{signed(t, s...), signed(t, s...), scalarF(0.1)}
	if rapid.Bool().Draw(t, "momentum") {
		o.Momentum, o.Nesterov = 0.9, rapid.Bool().Draw(t, "nesterov")
		in = append(in, signed(t, s...))
	}
	if o.Clip {
		in = append(in, scalarF(0.7))
	}
	return sample{op: o, in: in}
}

func drawAdam(t *rapid.T) sample {
	s := dims(t, 0, 2)
	o := ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01, Scale: 1, Clip: rapid.Bool().Draw(t, "clip")}
	in := []ref.Array{signed(t, s...), signed(t, s...), signed(t, s...), positive(t, s...), scalarI(3), scalarF(0.1)}
	if o.Clip {
		in = append(in, scalarF(0.7))
	}
	return sample{op: o, in: in}
}

func drawLion(t *rapid.T) sample {
	s := dims(t, 0, 2)
	o := ops.Lion{Beta1: 0.9, Beta2: 0.99, WeightDecay: 0.1, Scale: 0.5, Clip: rapid.Bool().Draw(t, "clip")}
	in := []ref.Array{signed(t, s...), signed(t, s...), signed(t, s...), scalarF(0.1)}
	if o.Clip {
		in = append(in, scalarF(0.7))
	}
	return sample{op: o, in: in}
}

func drawClipFactor(t *rapid.T) sample {
	in := []ref.Array{scalarF(4), scalarF(5), scalarF(0)}
	return sample{op: ops.ClipFactor{MaxNorm: 1, Scale: 0.5}, in: in[:num(t, 1, 3, "inputs")]}
}

func drawGradNorm(t *rapid.T) sample {
	in := []ref.Array{scalarF(4), scalarF(5), scalarF(0)}
	return sample{op: ops.GradNorm{Scale: 0.5}, in: in[:num(t, 1, 3, "inputs")]}
}

func drawLearningRate(t *rapid.T) sample {
	o := rapid.SampledFrom([]ops.LearningRate{
		{Schedule: "constant"}, {Schedule: "step", Keys: ops.Stepped{Every: 3, Gamma: 0.5}}, {Schedule: "cosine"}, {Schedule: "linear"},
		{Schedule: "wsd"}, {Schedule: "inverse_sqrt"}, {Schedule: "one_cycle"},
	}).Draw(t, "schedule")
	o.Base, o.Total = 1, 10
	if o.Schedule != "one_cycle" {
		o.Warmup = 2
	}
	return sample{op: o, in: []ref.Array{scalarI(int32(num(t, 0, 12, "step")))}}
}

func drawIncrement(t *rapid.T) sample {
	return sample{op: ops.Increment{}, in: []ref.Array{scalarI(int32(num(t, 0, 9, "counter")))}}
}

func drawRingWrite(t *rapid.T) sample {
	length, step := num(t, 1, 4, "length"), scalarI(int32(num(t, 0, 9, "step")))
	if n := num(t, 0, 3, "numbers"); n > 0 {
		return sample{op: ops.RingWrite{Scale: 0.5}, in: []ref.Array{signed(t, length, n), step, signed(t, n)}}
	}
	return sample{op: ops.RingWrite{Scale: 0.5}, in: []ref.Array{signed(t, length), step, scalarF(3)}}
}

// drawAveraged draws an update with an average of the weight.
func drawAveraged(t *rapid.T) sample {
	s := rapid.SampledFrom([]func(*rapid.T) sample{drawSGD, drawAdam, drawLion}).Draw(t, "update")(t)
	s.in = slices.Insert(s.in, 1, signed(t, s.in[0].Meta.Shape...))
	s.op = ops.Averaged{Op: s.op, Decay: 0.9}
	return s
}

// drawRanged draws an update, and cuts its state to a range.
func drawRanged(t *rapid.T) sample {
	s := rapid.SampledFrom([]func(*rapid.T) sample{drawSGD, drawAdam, drawLion, drawAveraged}).Draw(t, "update")(t)
	n := len(s.in[0].F)
	o := ops.Ranged{Op: s.op, From: num(t, 0, n-1, "from")}
	o.Count, o.Apart = num(t, 1, n-o.From, "count"), rapid.Bool().Draw(t, "apart")
	tensors := 2 // the weight and its gradient
	if _, ok := s.op.(ops.Averaged); ok {
		tensors = 3
	}
	for i := range s.in {
		if i < tensors && len(s.in[i].Meta.Shape) == 0 {
			s.in[i] = ref.Floats(s.in[i].F, 1)
		}
	}
	for i := 2; i < len(s.in); i++ {
		if a := s.in[i]; len(a.F) == n && (len(a.Meta.Shape) > 0 || slices.Contains(o.Places(), i)) {
			s.in[i] = ref.Floats(a.F[o.From:][:o.Count], o.Count)
		}
	}
	s.op = o
	return s
}

func drawSquareParts(t *rapid.T) sample {
	return sample{op: ops.SquareParts{}, in: []ref.Array{signed(t, dims(t, 0, 3)...)}}
}

func drawSquareTotal(t *rapid.T) sample {
	s := sample{op: ops.SquareTotal{}}
	for range num(t, 0, 3, "ranges") {
		s.in = append(s.in, ref.Ints([]int32{0, 1 << 29}, 1, 2))
	}
	return s
}
