package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

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
		switch op := rapid.IntRange(-3, 9).Draw(t, "op"); {
		case op == -3:
			v = b.One(ops.Dropout{P: 0.3, Seed: 5, ID: uint64(len(values))}, ops.Neg(b, v), step, step)
		case op == -2 && v.Meta.Equal(u.Meta):
			v = []*graph.Value{b.One(ops.MSEGrad{}, v, u, scale), b.One(ops.BCEGrad{}, v, u, scale), b.One(ops.Lerp{T: 0.25}, v, u)}[len(values)%3]
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
	dx := b.One(ops.Conv2DGradX{Stride: 1, Pad: 1, Groups: 1, H: side, W: side}, w, dy)
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
		switch rapid.IntRange(0, 2).Draw(t, "op") {
		case 0:
			out = b.Apply(ops.Adam{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Scale: 0.5, Decoupled: true, WeightDecay: 0.1}, in[0], in[1], in[2], b.One(ops.Unary{Fn: "square"}, in[3]), step, lr)
		case 1:
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

// runCuts runs clusters one after the other, each in place where place says so,
// and returns the graph's outputs.
func runCuts(t kernelstest.Failer, on work.Target, g *graph.Graph, cuts *fuse.Cuts, in map[*graph.Value][]byte, p work.Pool, place func() bool) [][]byte {
	t.Helper()
	at := map[*graph.Value][]byte{}
	for v, b := range in {
		at[v] = b
	}
	for _, c := range cuts.Clusters {
		if fuse.IsView(c.Nodes[0]) {
			at[c.Out[0]] = at[c.In[0]]
			continue
		}
		k, err := NewCluster(c, on)
		if err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		scratch := kernelstest.NewGuarded(int(k.ScratchBytes()))
		a, used := work.Args{Scratch: scratch.Mem}, []kernelstest.Guarded{scratch}
		for _, v := range c.In {
			m := kernelstest.NewGuarded(len(at[v]))
			copy(m.Mem, at[v])
			a.In, used = append(a.In, m.Mem), append(used, m)
		}
		taken := map[int]bool{}
		for o, v := range c.Out {
			m := kernelstest.NewGuarded(int(v.Meta.Bytes()))
			for _, j := range c.Alias[o] {
				if !taken[j] && len(a.In[j]) == len(m.Mem) && count(c.In, c.In[j]) == 1 && place() {
					m, taken[j] = used[1+j], true
					break
				}
			}
			a.Out, used = append(a.Out, m.Mem), append(used, m)
			at[v] = m.Mem
		}
		if err := k.Run(p, &a); err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		for _, m := range used {
			if !m.Intact() {
				t.Fatalf("%s wrote outside its memory", c.Name())
			}
		}
	}
	var out [][]byte
	for _, v := range g.Outputs {
		out = append(out, at[v])
	}
	return out
}

func count(vs []*graph.Value, v *graph.Value) int {
	n := 0
	for _, u := range vs {
		if u == v {
			n++
		}
	}
	return n
}

// TestClustersEqualTheirNodes runs random graphs node by node and fused, on
// several threads and in place, and wants the same bits.
func TestClustersEqualTheirNodes(t *testing.T) { rig.EachISA(t, testClusters) }

func testClusters(t *testing.T, r kernelstest.Rig) {
	fused := 0
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SampledFrom([]func(*rapid.T) *graph.Graph{drawCluster, drawCluster, drawHead, drawUpdates, drawSums, drawTargets}).Draw(t, "sort")(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
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
			in[v] = kernelstest.Load(a).Mem
		}
		want := runCuts(t, r.On, g, fuse.Alone(g), in, kernelstest.Serial{}, func() bool { return false })
		cuts := fuse.Cut(g, nil)
		fused += len(g.Nodes) - len(cuts.Clusters)
		for threads := 1; threads <= 3; threads++ {
			got := runCuts(t, r.On, g, cuts, in, kernelstest.Shuffled{N: threads, Rng: rng}, func() bool { return rng.IntN(2) == 0 })
			for i, v := range g.Outputs {
				if !sameBits(got[i], want[i]) {
					t.Fatalf("%d threads: %v has other bits when fused:\n%v", threads, v, cuts)
				}
			}
		}
	})
	if fused == 0 {
		t.Error("nothing was fused")
	}
}

// sameBits compares floats by their bits, and takes any NaN for another: which
// of two a sum keeps depends on how the compiler orders the operands.
func sameBits(a, b []byte) bool {
	y := shape.View[float32](b)
	for i, v := range shape.View[float32](a) {
		if math.Float32bits(v) != math.Float32bits(y[i]) && (v == v || y[i] == y[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// TestClusterAllocatesNothing where it runs.
func TestClusterAllocatesNothing(t *testing.T) {
	b := graph.NewBuilder("test", 1)
	x, w := b.Input("x", shape.F32(100, 50)), b.Input("w", shape.F32(50, 600))
	pre := ops.Add(b, ops.MatMulOf(b, x, w, false, false), b.Input("bias", shape.F32(600)))
	b.Output("y", ops.GeluTanh(b, pre))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	c := fuse.Cut(g, nil).Clusters[0]
	k, err := NewCluster(c, rig.On)
	if err != nil {
		t.Fatal(err)
	}
	a := work.Args{Scratch: make([]byte, k.ScratchBytes())}
	for _, v := range c.In {
		a.In = append(a.In, kernelstest.NewGuarded(int(v.Meta.Bytes())).Mem)
	}
	for _, v := range c.Out {
		a.Out = append(a.Out, kernelstest.NewGuarded(int(v.Meta.Bytes())).Mem)
	}
	if n := testing.AllocsPerRun(5, func() {
		if err := k.Run(kernelstest.Serial{}, &a); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || c.Name() != "matmul+add+gelu_tanh" {
		t.Errorf("%s allocates %v times", c.Name(), n)
	}
}
