package kernelstest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// Fusable draw graphs whose nodes fuse. The first is drawn twice as often.
var Fusable = []func(t *rapid.T) *graph.Graph{drawCluster, drawCluster, drawHead, drawUpdates, drawSums, drawTargets}

// Inputs are random contents of a graph's inputs, some of them not finite.
func Inputs(g *graph.Graph, rng *rand.Rand) map[*graph.Value][]byte {
	in := map[*graph.Value][]byte{}
	for _, v := range g.Inputs {
		a := ref.New(v.Meta)
		for i := range a.I {
			a.I[i] = int32(rng.IntN(9))
		}
		for i := range a.F {
			a.F[i] = rng.NormFloat64()
			if rng.IntN(500) == 0 {
				a.F[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0}[rng.IntN(4)]
			}
		}
		in[v] = Load(a).Mem
	}
	return in
}

// SameBits compares floats by their bits, and takes any NaN for another: which
// of two a sum keeps depends on how the compiler orders the operands.
func SameBits(a, b []byte) bool {
	y := shape.View[float32](b)
	for i, v := range shape.View[float32](a) {
		if math.Float32bits(v) != math.Float32bits(y[i]) && (v == v || y[i] == y[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// drawCluster makes a random graph over one frame: elementwise ops, operands
// that are stretched in every way a frame allows, products and views.
func drawCluster(t *rapid.T) *graph.Graph {
	b := graph.NewBuilder("random", 1)
	outer, rows, cols := rapid.IntRange(1, 3).Draw(t, "outer"), rapid.IntRange(1, 9).Draw(t, "rows"), rapid.IntRange(1, 700).Draw(t, "cols")
	whole := shape.Of(outer, rows, cols)
	w, step, scale := b.Input("w", shape.F32(cols, cols)), b.Input("step", shape.I32()), b.Input("scale", shape.F32())
	values := []*graph.Value{b.Input("x", shape.Meta{DType: shape.Float32, Shape: whole})}
	for i, s := range []shape.Shape{{cols}, {rows, 1}, {1}, {rows, cols}, {outer, 1, 1}, whole} {
		values = append(values, b.Input(fmt.Sprint("in", i), shape.Meta{DType: shape.Float32, Shape: s}))
	}
	unary := []string{"neg", "relu", "gelu_tanh", "exp", "square", "abs", "tanh", "sigmoid"}
	for range rapid.IntRange(2, 14).Draw(t, "nodes") {
		v := rapid.SampledFrom(values).Draw(t, "a")
		u := rapid.SampledFrom(values).Draw(t, "b")
		switch op := rapid.IntRange(-4, 9).Draw(t, "op"); {
		case op == -4:
			v = ops.SelectOf(b, v, u, rapid.SampledFrom(values).Draw(t, "c"))
		case op == -3:
			v = b.One(ops.Dropout{P: 0.3, Seed: 5, ID: uint64(len(values))}, ops.Neg(b, v), step, step)
		case op == -2 && v.Meta.Equal(u.Meta):
			v = []*graph.Value{b.One(ops.MSEGrad{}, v, u, scale), b.One(ops.BCEGrad{}, v, u, scale), b.One(ops.Lerp{T: 0.25}, v, u),
				b.One(ops.Compare{Fn: "less"}, v, u), b.One(ops.SelectGrad{}, v, u)}[len(values)%5]
		case op == -1:
			v = ops.Broadcast(b, v, whole)
		case op == 0 && v.Meta.Shape.Rank() == 3 && v.Meta.Shape.Dim(-1) == cols:
			v = ops.MatMulOf(b, v, w, false, false)
		case op == 1:
			v = ops.ReshapeTo(b, ops.Neg(b, ops.ReshapeTo(b, v, v.Meta.Elems())), v.Meta.Shape...)
		case op == 2 && v.Meta.Equal(u.Meta):
			v = b.One(ops.UnaryGrad{Fn: rapid.SampledFrom(unary[1:]).Draw(t, "fn")}, v, u)
		case op == 3:
			v = b.One(ops.Affine{Scale: 1.5, Shift: -0.25}, v)
		case op <= 6:
			v = b.One(ops.Unary{Fn: rapid.SampledFrom(unary).Draw(t, "fn")}, v)
		default:
			v = b.One(ops.Binary{Fn: rapid.SampledFrom([]string{"add", "sub", "mul", "div"}).Draw(t, "fn")}, v, u)
		}
		values = append(values, v)
	}
	last := len(values) - 1
	for i, v := range values {
		if v.Node != nil && (i == last || rapid.IntRange(0, 3).Draw(t, "output") == 0) {
			b.Output(fmt.Sprint("out", i), v)
		}
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// drawHead makes a head of each kind, followed by what may follow it.
func drawHead(t *rapid.T) *graph.Graph {
	b := graph.NewBuilder("random", 1)
	n, c, o, side := rapid.IntRange(1, 3).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "c"), rapid.IntRange(1, 40).Draw(t, "o"), rapid.IntRange(2, 20).Draw(t, "side")
	x, dy := b.Input("x", shape.F32(n, c, side, side)), b.Input("dy", shape.F32(n, o, side, side))
	w, bias := b.Input("w", shape.F32(o, c, 3, 3)), b.Input("b", shape.F32(o, 1, 1))
	y := ops.Add(b, ops.Conv2DOf(b, x, w, 1, 1, 1), bias)
	b.Output("y", y)
	b.Output("relu", ops.Relu(b, y))
	dx := b.One(ops.Conv2DGradX{Of: ops.Conv2D{Stride: 1, Pad: 1, Groups: 1}, H: side, W: side}, w, dy)
	b.Output("dx", b.One(ops.UnaryGrad{Fn: "relu"}, x, dx))
	down := b.Apply(ops.MaxPool2D{Kernel: 2, Stride: 2}, x)
	b.Output("dp", b.One(ops.UnaryGrad{Fn: "relu"}, x, b.One(ops.MaxPool2DGrad{H: side, W: side}, down[1], ops.Neg(b, down[0]))))
	mean := b.One(ops.AvgPool2D{Kernel: 2, Stride: 2}, x)
	b.Output("da", ops.Mul(b, x, b.One(ops.AvgPool2DGrad{Kernel: 2, Stride: 2, H: side, W: side}, mean)))
	ids := b.Input("ids", shape.I32(n, side))
	b.Output("e", ops.Add(b, b.One(ops.Gather{}, b.Input("table", shape.F32(9, o)), ids), b.Input("pos", shape.F32(side, o))))
	vocabulary := rapid.IntRange(9, 3000).Draw(t, "vocabulary")
	tied := b.Input("tied", shape.F32(vocabulary, o))
	b.Output("de", ops.Add(b, b.One(ops.ScatterAdd{Rows: vocabulary}, ids, ops.Neg(b, b.Input("rows of e", shape.F32(n, side, o)))), tied))
	rows := b.Input("rows", shape.F32(n*side, o))
	gamma := b.Input("gamma", shape.F32(o))
	norm := b.Apply(ops.LayerNorm{Eps: 1e-5}, rows, gamma, gamma)
	b.Output("norm", ops.Relu(b, norm[0]))
	b.Output("scaled", ops.Mul(b, ops.Neg(b, norm[0]), ops.ReshapeTo(b, norm[1], n*side, 1)))
	for i, v := range b.Apply(ops.LayerNormGrad{}, rows, gamma, norm[1], norm[2], ops.Neg(b, rows)) {
		b.Output(fmt.Sprint("norm grad", i), ops.Add(b, v, v))
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// drawSums makes sums of planes behind what writes them.
func drawSums(t *rapid.T) *graph.Graph {
	b := graph.NewBuilder("random", 1)
	n, c, side := rapid.IntRange(1, 300).Draw(t, "n"), rapid.IntRange(1, 4).Draw(t, "c"), rapid.IntRange(2, 30).Draw(t, "side")
	x, y := b.Input("x", shape.F32(n, c, side, side)), b.Input("y", shape.F32(n, c, side, side))
	down := b.Apply(ops.MaxPool2D{Kernel: 2, Stride: 2}, x)
	pool := b.One(ops.MaxPool2DGrad{H: side, W: side}, down[1], ops.Exp(b, down[0]))
	dx := b.One(ops.UnaryGrad{Fn: "relu"}, y, pool)
	to := rapid.SampledFrom([]shape.Shape{{c, 1, 1}, {n, c, 1, 1}, {n, 1, 1, 1}, {side, side}, {1}}).Draw(t, "to")
	sum := ops.SumToShape(b, dx, to)
	b.Output("sum", sum)
	b.Output("raw", ops.SumToShape(b, pool, to))
	b.Output("other", ops.SumToShape(b, ops.Mul(b, ops.Neg(b, y), x), to))
	if rapid.Bool().Draw(t, "reads dx") {
		b.Output("dx", dx)
	}
	b.Output("after", ops.Mul(b, dx, sum))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// drawTargets makes a loss, its gradient and the number of right answers.
func drawTargets(t *rapid.T) *graph.Graph {
	b := graph.NewBuilder("random", 1)
	r, c := rapid.IntRange(1, 300).Draw(t, "rows"), rapid.IntRange(9, 200).Draw(t, "classes")
	x, targets := b.Input("x", shape.F32(r, c)), b.Input("targets", shape.I32(r))
	loss := b.Apply(ops.CrossEntropy{}, x, targets)
	b.Output("loss", loss[0])
	b.Output("correct", b.One(ops.Correct{}, x, targets))
	scale := b.Input("scale", shape.F32())
	if rapid.Bool().Draw(t, "scaled by the loss") {
		scale = loss[0]
	}
	dx := b.One(ops.CrossEntropyGrad{}, x, targets, loss[1], scale)
	if rapid.Bool().Draw(t, "reads the logits") {
		dx = ops.Mul(b, dx, x)
	}
	b.Output("dx", dx)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// drawUpdates makes updates of tensors of many sizes.
func drawUpdates(t *rapid.T) *graph.Graph {
	b := graph.NewBuilder("random", 1)
	step, lr, clip := b.Input("step", shape.I32()), b.Input("lr", shape.F32()), b.Input("clip", shape.F32())
	for i := range rapid.IntRange(2, 6).Draw(t, "updates") {
		n := rapid.IntRange(0, 40000).Draw(t, "n")
		var in []*graph.Value
		for k := range 4 {
			in = append(in, b.Input(fmt.Sprint("x", i, k), shape.F32(n)))
		}
		var out []*graph.Value
		switch rapid.IntRange(0, 3).Draw(t, "op") {
		case 0:
			out = b.Apply(ops.Adam{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Scale: 0.5, Decoupled: true, WeightDecay: 0.1}, in[0], in[1], in[2], b.One(ops.Unary{Fn: "square"}, in[3]), step, lr)
		case 1:
			out = b.Apply(ops.Lion{Beta1: 0.9, Beta2: 0.99, WeightDecay: 0.1, Scale: 0.5, Clip: true}, in[0], in[1], in[2], lr, clip)
		case 2:
			out = b.Apply(ops.SGD{Momentum: 0.9, Scale: 1, Clip: true}, in[0], in[1], lr, in[2], clip)
		default:
			out = b.Apply(ops.SGD{Scale: 2}, in[0], in[1], lr)
		}
		for k, v := range out {
			b.Output(fmt.Sprint("y", i, k), v)
		}
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}
