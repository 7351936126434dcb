package kernelstest

import (
	"maps"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// Cases draw one application per kind of op.
var Cases = map[string]func(s Source) Sample{}

func init() {
	for _, fn := range []string{"add", "sub", "mul", "div"} {
		Cases[fn] = func(s Source) Sample { return drawBinary(s, fn) }
	}
	for _, fn := range []string{"neg", "relu", "gelu_tanh", "gelu_erf", "silu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "square", "abs"} {
		Cases[fn] = func(s Source) Sample {
			return Of(ops.Unary{Fn: fn}, 1e-6, drawDomain(s, fn))
		}
		if fn == "neg" {
			continue
		}
		Cases[fn+"_grad"] = func(s Source) Sample {
			a := drawDomain(s, fn)
			return Of(ops.UnaryGrad{Fn: fn}, 2e-6, a, s.Normal(a.Meta.Shape...))
		}
	}
	for _, fn := range []string{"less", "equal"} {
		Cases[fn] = func(s Source) Sample {
			x := s.Shape("x", 0, 3, 40)
			return Of(ops.Compare{Fn: fn}, 0, s.few(x...), s.few(x...))
		}
	}
	for _, fn := range []string{"sum", "mean", "max"} {
		Cases["reduce_"+fn] = func(s Source) Sample { return drawReduce(s, fn) }
	}
	maps.Copy(Cases, movementCases)
	maps.Copy(Cases, productCases)
	maps.Copy(Cases, rowCases)
	maps.Copy(Cases, countCases)
	maps.Copy(Cases, updateCases)
	maps.Copy(Cases, generateCases)
	maps.Copy(Cases, lengthCases)
	maps.Copy(Cases, dynamicCases)
}

// drawDomain is inputs (or outputs, where the gradient takes those) of an
// elementwise function.
func drawDomain(s Source, fn string) ref.Array {
	dims := s.Shape("x", 0, 3, 40)
	switch fn {
	case "log", "sqrt", "rsqrt":
		return s.Floats(0.2, 4, dims...)
	case "sigmoid", "tanh", "exp":
		return s.Floats(-1, 1, dims...)
	}
	return s.Floats(-6, 6, dims...)
}

func drawBinary(s Source, fn string) Sample {
	out := s.Shape("x", 0, 4, 13)
	if rapid.IntRange(0, 4).Draw(s.T, "narrow") == 0 {
		out = shape.Of(s.Size("n", 3), s.Size("rows", 3000), s.Size("few", 40))
	}
	shrink := func(name string) []int {
		d := slices.Clone(out[rapid.IntRange(0, len(out)).Draw(s.T, name+" from"):])
		for i := range d {
			if rapid.IntRange(0, 3).Draw(s.T, name) == 0 {
				d[i] = 1
			}
		}
		return d
	}
	b := s.Floats(0.5, 2, shrink("b")...)
	return Of(ops.Binary{Fn: fn}, 1e-6, s.Normal(shrink("a")...), b)
}

// few is numbers of which many are equal and some are NaN.
func (s Source) few(dims ...int) ref.Array {
	a := s.Floats(-1.5, 1.5, dims...)
	for i, f := range a.F {
		a.F[i] = math.Round(f)
	}
	return s.NonFinite(a)
}

// Axes draws some axes of a shape, ascending.
func (s Source) Axes(x shape.Shape) []int {
	var axes []int
	for i := range x {
		if s.Bool("axis") {
			axes = append(axes, i)
		}
	}
	return axes
}

func drawReduce(s Source, fn string) Sample {
	x := s.Shape("x", 0, 4, 20)
	if fn != "sum" && x.Elems() == 0 {
		x = shape.Of(3, 1)
	}
	if rapid.IntRange(0, 4).Draw(s.T, "large") == 0 {
		x = rapid.SampledFrom([]shape.Shape{ // with rows that are narrow, many or shared
			{s.Size("rows", 30000), s.Size("few", 17)}, {s.Size("rows", 300), s.Size("columns", 1500)},
			{s.Size("n", 90), s.Size("c", 30), s.Size("s", 90)}, {s.Size("n", 9), s.Size("rows", 3000), s.Size("few", 20)},
			{s.Size("n", 9), s.Size("c", 5), s.Size("h", 40), s.Size("w", 40)},
		}).Draw(s.T, "shape")
	}
	return Of(ops.Reduce{Fn: fn, Axes: s.Axes(x), Keep: s.Bool("keep")}, 1e-6, s.NonFinite(s.Normal(x...)))
}

var movementCases = map[string]func(s Source) Sample{
	"swiglu":     func(s Source) Sample { return drawGated(s, "swiglu") },
	"geglu":      func(s Source) Sample { return drawGated(s, "geglu") },
	"geglu_tanh": func(s Source) Sample { return drawGated(s, "geglu_tanh") },
	"affine": func(s Source) Sample {
		return Of(ops.Affine{Scale: 1.5, Shift: -0.3}, 1e-6, s.Normal(s.Shape("x", 0, 2, 90)...))
	},
	"lerp": func(s Source) Sample {
		x := s.Shape("x", 0, 2, 90)
		return Of(ops.Lerp{T: 0.1}, 1e-6, s.Normal(x...), s.Normal(x...))
	},
	"select": func(s Source) Sample {
		x := s.Shape("x", 0, 3, 40)
		return Of(ops.Select{}, 0, s.few(x...), s.NonFinite(s.Normal(x...)), s.NonFinite(s.Normal(x...)))
	},
	"select_grad": func(s Source) Sample {
		x := s.Shape("x", 0, 3, 40)
		return Of(ops.SelectGrad{Else: s.Bool("else")}, 0, s.few(x...), s.NonFinite(s.Normal(x...)))
	},
	"fill": func(s Source) Sample {
		m := shape.Meta{DType: shape.Float32, Shape: s.Shape("x", 0, 2, 90)}
		if s.Bool("int") {
			m.DType = shape.Int32
		}
		return Of(ops.Fill{Meta: m, Value: 7}, 0)
	},
	"reduce_max_grad": func(s Source) Sample {
		x := s.Normal(s.Shape("x", 1, 3, 9)...)
		if x.Meta.Elems() == 0 {
			x = s.Normal(2, 3)
		}
		for i := range x.F {
			x.F[i] = math.Round(x.F[i]) // so that equals occur
		}
		op := ops.Reduce{Fn: "max", Axes: s.Axes(x.Meta.Shape), Keep: true}
		y, err := ref.Run(op, []ref.Array{x})
		if err != nil {
			s.T.Fatalf("%v", err)
		}
		return Of(ops.ReduceMaxGrad{Axes: op.Axes}, 0, x, y[0], s.Normal(y[0].Meta.Shape...))
	},
	"sum_to": func(s Source) Sample {
		x, to := drawStretch(s)
		if rapid.IntRange(0, 4).Draw(s.T, "narrow") == 0 {
			x, to = shape.Of(s.Size("rows", 30000), s.Size("columns", 40)), shape.Of(1)
			to[0] = x[1]
		}
		return Of(ops.SumTo{Shape: to}, 1e-6, s.Normal(x...))
	},
	"broadcast_to": func(s Source) Sample {
		to, x := drawStretch(s)
		if s.Bool("int") {
			return Of(ops.BroadcastTo{Shape: to}, 0, s.IDs(99, x...))
		}
		return Of(ops.BroadcastTo{Shape: to}, 0, s.Normal(x...))
	},
	"sum_squares": func(s Source) Sample {
		return Of(ops.SumSquares{}, 1e-6, s.Normal(s.Shape("x", 0, 2, 500)...))
	},
	"reshape": func(s Source) Sample {
		x := s.Shape("x", 2, 3, 30)
		return Of(ops.Reshape{Shape: shape.Of(x[1:].Elems(), x[0])}, 0, s.Normal(x...))
	},
	"transpose": func(s Source) Sample {
		x := s.Shape("x", 1, 4, 12)
		perm := make([]int, len(x))
		for i := range perm {
			perm[i] = i
		}
		return Of(ops.Transpose{Perm: rapid.Permutation(perm).Draw(s.T, "perm")}, 0, s.Normal(x...))
	},
	"slice": func(s Source) Sample {
		x, start, stop := drawSlice(s)
		return Of(ops.Slice{Start: start, Stop: stop}, 0, s.Normal(x...))
	},
	"slice_grad": func(s Source) Sample {
		x, start, stop := drawSlice(s)
		d := make([]int, len(x))
		for i := range d {
			d[i] = stop[i] - start[i]
		}
		return Of(ops.SliceGrad{Start: start, Shape: x}, 0, s.Normal(d...))
	},
	"cast": drawCast,
	"concat": func(s Source) Sample {
		x := s.Shape("x", 1, 3, 9)
		axis := rapid.IntRange(0, len(x)-1).Draw(s.T, "axis")
		var in []ref.Array
		for range s.Size("inputs", 4) {
			d := slices.Clone(x)
			d[axis] = s.Dim("part", 9)
			in = append(in, s.Normal(d...))
		}
		return Of(ops.Concat{Axis: axis}, 0, in...)
	},
}

// drawCast is a cast of numbers of every size, NaN and infinity among them.
func drawCast(s Source) Sample {
	x := s.Shape("x", 0, 2, 500)
	to := rapid.SampledFrom([]string{"f32", "i32", "bf16", "f16", "widen", "int8"}).Draw(s.T, "to")
	if to == "f32" {
		return Of(ops.Cast{To: to}, 0, s.IDs(math.MaxInt32, x...))
	}
	if to == "int8" {
		return Of(ops.Cast{To: "f32"}, 0, storedInt8(s.Normal(append(x, s.Size("d", 200))...)))
	}
	a := s.NonFinite(s.Normal(x...))
	for i := range a.F {
		a.F[i] = float64(float32(a.F[i] * math.Exp2(float64(i%70-32))))
	}
	if to == "widen" {
		return Of(ops.Cast{To: "f32"}, 0, stored(a))
	}
	return Of(ops.Cast{To: to}, 0, a)
}

// stored is an array as bfloat16.
func stored(a ref.Array) ref.Array {
	a.Meta.DType = shape.BFloat16
	return rounded(a)
}

// rounded is an array with its numbers rounded to bfloat16.
func rounded(a ref.Array) ref.Array {
	for i, x := range a.F {
		a.F[i] = float64(ops.RoundBF16(float32(x)))
	}
	return a
}

// storedInt8 is an array as int8 by block: of each 32 numbers of a row, the largest is 127
// of their scale.
func storedInt8(a ref.Array) ref.Array {
	a.Meta.DType = shape.Int8Block
	for row := range slices.Chunk(a.F, max(1, a.Meta.Shape.Dim(-1))) {
		for block := range slices.Chunk(row, 32) {
			most := 0.0
			for _, x := range block {
				most = max(most, math.Abs(x))
			}
			scale := float64(ops.RoundBF16(float32(most / 127)))
			for i, x := range block {
				if block[i] = 0; scale > 0 {
					block[i] = math.RoundToEven(x/scale) * scale
				}
			}
		}
	}
	return a
}

// drawStretch is a shape and one that broadcasts to it.
func drawStretch(s Source) (to, from shape.Shape) {
	to = s.Shape("x", 0, 4, 16)
	if rapid.IntRange(0, 4).Draw(s.T, "narrow") == 0 {
		to = shape.Of(s.Size("n", 3), s.Size("rows", 3000), s.Size("few", 25))
	}
	from = to[rapid.IntRange(0, len(to)).Draw(s.T, "from"):].Clone()
	for i := range from {
		if s.Bool("stretch") {
			from[i] = 1
		}
	}
	return to, from
}

func drawSlice(s Source) (x shape.Shape, start, stop []int) {
	x = s.Shape("x", 1, 4, 9)
	if rapid.IntRange(0, 4).Draw(s.T, "narrow") == 0 {
		x = shape.Of(s.Size("n", 3), s.Size("rows", 3000), s.Size("few", 25))
	}
	for _, d := range x {
		lo := rapid.IntRange(0, d).Draw(s.T, "start")
		start, stop = append(start, lo), append(stop, rapid.IntRange(lo, d).Draw(s.T, "stop"))
	}
	return x, start, stop
}

var rowCases = map[string]func(s Source) Sample{
	"softmax":          func(s Source) Sample { return Of(ops.Softmax{}, 1e-6, drawRows(s)) },
	"log_softmax":      func(s Source) Sample { return Of(ops.LogSoftmax{}, 1e-6, drawRows(s)) },
	"softmax_grad":     func(s Source) Sample { return drawRowGrad(s, ops.Softmax{}, ops.SoftmaxGrad{}) },
	"log_softmax_grad": func(s Source) Sample { return drawRowGrad(s, ops.LogSoftmax{}, ops.LogSoftmaxGrad{}) },
	"cross_entropy": func(s Source) Sample {
		x, t := drawClasses(s)
		return Of(ops.CrossEntropy{Padded: s.padded(t)}, 1e-6, x, t)
	},
	"cross_entropy_grad": func(s Source) Sample {
		x, t := drawClasses(s)
		op := ops.CrossEntropy{Padded: s.padded(t)}
		lse := mustRun(s, op, x, t)[1]
		for i, v := range lse.F {
			lse.F[i] = float64(float32(v))
		}
		return Of(ops.CrossEntropyGrad(op), 2e-6, x, t, lse, s.Normal())
	},
	"correct": func(s Source) Sample {
		x, t := drawClasses(s)
		return Of(ops.Correct{Padded: s.padded(t)}, 0, x, t)
	},
	"mse":            func(s Source) Sample { return drawLoss(s, ops.MSE{}) },
	"bce":            func(s Source) Sample { return drawLoss(s, ops.BCE{}) },
	"binary_correct": func(s Source) Sample { return drawLoss(s, ops.BinaryCorrect{}) },
	"mse_grad":       func(s Source) Sample { return drawLoss(s, ops.MSEGrad{}, s.Normal()) },
	"bce_grad":       func(s Source) Sample { return drawLoss(s, ops.BCEGrad{}, s.Normal()) },
	"check_finite":   func(s Source) Sample { return Of(ops.CheckFinite{}, 0, s.Normal()) },
	"layer_norm": func(s Source) Sample {
		x := s.Normal(append(s.Shape("x", 0, 2, 40), s.Size("d", 90))...)
		d := x.Meta.Shape.Dim(-1)
		return Of(ops.LayerNorm{Eps: 1e-5}, 2e-5, x, s.Normal(d), s.Normal(d))
	},
	"layer_norm_grad": func(s Source) Sample {
		lead, d := s.Shape("x", 0, 2, 30), s.Size("d", 90)
		x := append(lead.Clone(), d)
		return Of(ops.LayerNormGrad{}, 5e-5,
			s.Normal(x...), s.Normal(d), s.Normal(lead...), s.Floats(0.5, 2, lead...), s.Normal(x...),
		)
	},
	"rms_norm": func(s Source) Sample {
		x := s.Normal(append(s.Shape("x", 0, 2, 40), s.Size("d", 90))...)
		return Of(ops.RMSNorm{Eps: 1e-5}, 2e-5, x, s.Normal(x.Meta.Shape.Dim(-1)))
	},
	"rms_norm_grad": func(s Source) Sample {
		lead, d := s.Shape("x", 0, 2, 30), s.Size("d", 90)
		x := append(lead.Clone(), d)
		return Of(ops.RMSNormGrad{}, 5e-5, s.Normal(x...), s.Normal(d), s.Floats(0.5, 2, lead...), s.Normal(x...))
	},
	"rotary": func(s Source) Sample {
		op := ops.Rotary{Size: 2 * s.Size("half", 40), Heads: s.Size("heads", 3), Base: 1e4, Inverse: s.Bool("inverse")}
		if s.Bool("scaled") {
			op.Scaling = ops.RotaryScaling{Kind: "llama3", Factor: 8, Low: 1, High: 4, Context: 64}
		}
		b, t := s.Dim("b", 3), s.Dim("t", 40)
		in := []ref.Array{s.Normal(b, t, (op.Heads+rapid.IntRange(0, 2).Draw(s.T, "rest"))*op.Size)}
		if s.Bool("positions") {
			in = append(in, s.IDs(1<<20, b, t))
		}
		return Of(op, 1e-6, in...)
	},
	"batch_norm": func(s Source) Sample {
		x := drawChannels(s)
		return Of(ops.BatchNorm{Eps: 1e-5}, 1e-4, s.Normal(x...), s.Normal(x[1]), s.Normal(x[1]))
	},
	"batch_norm_grad": func(s Source) Sample {
		x := drawChannels(s)
		return Of(ops.BatchNormGrad{}, 5e-5,
			s.Normal(x...), s.Normal(x[1]), s.Normal(x[1]), s.Floats(0.5, 2, x[1]), s.Normal(x...),
		)
	},
	"batch_norm_eval": func(s Source) Sample {
		x := drawChannels(s)
		return Of(ops.BatchNormEval{Eps: 1e-5}, 1e-5,
			s.Normal(x...), s.Normal(x[1]), s.Normal(x[1]), s.Normal(x[1]), s.Floats(0.5, 2, x[1]),
		)
	},
	"dropout": func(s Source) Sample {
		op := ops.Dropout{P: rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.9}).Draw(s.T, "p"), Seed: 3, ID: 4}
		return Of(op, 1e-6, s.Normal(s.Shape("x", 1, 3, 40)...), s.IDs(100), s.IDs(1000))
	},
	"gather": func(s Source) Sample {
		v := s.Size("v", 50)
		table := s.Normal(v, s.Dim("d", 90))
		switch rapid.IntRange(0, 2).Draw(s.T, "stored") {
		case 1:
			table = stored(table)
		case 2:
			table = storedInt8(table)
		}
		return Of(ops.Gather{}, 0, table, s.IDs(v, s.Shape("ids", 0, 2, 20)...))
	},
	"scatter_add": func(s Source) Sample {
		v := s.Size("v", 50)
		ids := s.IDs(v, s.Shape("ids", 0, 2, 20)...)
		return Of(ops.ScatterAdd{Rows: v}, 2e-5, ids, s.Normal(append(ids.Meta.Shape.Clone(), s.Dim("d", 200))...))
	},
}

func drawRows(s Source) ref.Array {
	most := rapid.SampledFrom([]int{90, 17}).Draw(s.T, "most columns")
	return s.NonFinite(s.Floats(-9, 9, append(s.Shape("x", 0, 2, 30), s.Size("c", most))...))
}

func drawRowGrad(s Source, f, grad graph.Op) Sample {
	y := mustRun(s, f, drawRows(s))[0]
	for i, v := range y.F {
		y.F[i] = float64(float32(v))
	}
	return Of(grad, 2e-6, y, s.Normal(y.Meta.Shape...))
}

func drawClasses(s Source) (logits, targets ref.Array) {
	x := drawRows(s)
	lead := x.Meta.Shape[:x.Meta.Shape.Rank()-1]
	return x, s.IDs(x.Meta.Shape.Dim(-1), lead...)
}

func drawLoss(s Source, op graph.Op, more ...ref.Array) Sample {
	x := s.Shape("x", 0, 2, 120)
	return Of(op, 2e-6, append([]ref.Array{s.Normal(x...), s.Floats(0, 1, x...)}, more...)...)
}

func drawChannels(s Source) shape.Shape {
	if s.Bool("small planes") {
		x := shape.Of(s.Size("rows", 40), s.Size("columns", 300))
		if s.Bool("many rows") { // so that rows are shared
			x = shape.Of(500+s.Size("more rows", 1000), s.Size("columns", 200))
		}
		if s.Bool("plane") {
			x = append(shape.Of(x[0], max(1, x[1]/4)), s.shapeOf(1, 2, 4)...)
		}
		return x
	}
	return append(shape.Of(s.Size("n", 9), s.Size("c", 9)), s.shapeOf(0, 2, 12)...)
}

// shapeOf draws dimensions of at least 1.
func (s Source) shapeOf(minRank, maxRank, most int) shape.Shape {
	out := make(shape.Shape, rapid.IntRange(minRank, maxRank).Draw(s.T, "rank"))
	for i := range out {
		out[i] = s.Size("dim", most)
	}
	return out
}

var updateCases = map[string]func(s Source) Sample{
	"sgd":          drawSGD,
	"adam":         drawAdam,
	"averaged":     drawAveraged,
	"lion":         func(s Source) Sample { return drawLion(s, s.Shape("x", 0, 2, 90)) },
	"ranged":       drawRanged,
	"square_parts": func(s Source) Sample { return Of(ops.SquareParts{}, 0, drawWholeNumbers(s)) },
	"square_total": drawSquareTotal,
	"clip_factor": func(s Source) Sample {
		return Of(ops.ClipFactor{MaxNorm: 1, Scale: 0.5}, 1e-6, drawSquares(s)...)
	},
	"grad_norm": func(s Source) Sample { return Of(ops.GradNorm{Scale: 0.5}, 1e-6, drawSquares(s)...) },
	"learning_rate": func(s Source) Sample {
		op := rapid.SampledFrom([]ops.LearningRate{
			{Schedule: "constant"}, {Schedule: "step", Keys: ops.Stepped{Every: 7, Gamma: 0.5}},
			{Schedule: "cosine", Keys: ops.Falling{Min: 0.1}}, {Schedule: "linear", Keys: ops.Falling{Min: 0.1}},
			{Schedule: "wsd", Keys: ops.WSD{DecayRatio: 0.2}}, {Schedule: "inverse_sqrt"}, {Schedule: "one_cycle"},
		}).Draw(s.T, "schedule")
		op.Base, op.Total = 1, 100
		if op.Schedule != "one_cycle" { // it has a warm-up of its own
			op.Warmup = 10
		}
		return Of(op, 1e-6, s.IDs(130))
	},
	"increment": func(s Source) Sample { return Of(ops.Increment{}, 0, s.IDs(99)) },
	"ring_write": func(s Source) Sample {
		var x []int
		if s.Bool("tensor") {
			x = []int{s.Size("x", 5)}
		}
		return Of(ops.RingWrite{Scale: 0.5}, 1e-6, s.Normal(append([]int{s.Size("ring", 9)}, x...)...), s.IDs(99), s.Normal(x...))
	},
}

func drawGated(s Source, fn string) Sample {
	x := s.Shape("x", 0, 2, 90)
	return Of(ops.Gated{Fn: fn}, 2e-6, s.Normal(x...), s.Normal(x...))
}
