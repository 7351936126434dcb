package graph_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var fc2 = &graph.Layer{Index: 3, Type: "dense", Name: "fc2", Block: "fc2", Pos: graph.Pos{File: "configs/x.yaml", Line: 14}}

func done(t *testing.T, b *graph.Builder) *graph.Graph {
	t.Helper()
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func kinds(g *graph.Graph) string {
	var s []string
	for _, n := range g.Nodes {
		s = append(s, n.Op.Kind())
	}
	return strings.Join(s, " ")
}

func one(b *graph.Builder) *graph.Value { return ops.Const(b, shape.F32(), 1) }

func TestShapeErrorsNameTheLayerAndItsLine(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x := b.Input("x", shape.F32(8, 128))
	restore := b.In(fc2)
	w := b.Var("fc2.weight", shape.F32(10, 64), graph.Parameter, graph.Init{})
	y := ops.MatMulOf(b, x, w, false, true)
	restore()
	ops.Relu(b, ops.Add(b, y, x)) // the first error sticks
	_, err := b.Graph()
	const want = `configs/x.yaml:14: layer 3 (dense "fc2"): input has 128 features, weight expects 64`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, expected %s", err, want)
	}
	if !errors.Is(err, graph.ErrShape) || b.Err() == nil {
		t.Error("the error is no ErrShape")
	}
}

func TestErrors(t *testing.T) {
	here := func(b *graph.Builder) { b.In(&graph.Layer{Type: "relu", Name: "act"}) }
	for want, build := range map[string]func(b *graph.Builder){
		`net: matmul: input has 3 features, weight expects 4`: func(b *graph.Builder) {
			ops.MatMulOf(b, b.Input("x", shape.F32(2, 3)), b.Input("w", shape.F32(4, 5)), false, false)
		},
		`layer 0 (relu "act"): input 0 is i32[2], expected f32: convert it where it enters the graph`: func(b *graph.Builder) {
			here(b)
			ops.Relu(b, b.Input("x", shape.I32(2)))
		},
		`net: variable "w" is declared twice`: func(b *graph.Builder) {
			for range 2 {
				b.Var("w", shape.F32(), graph.Parameter, graph.Init{})
			}
		},
		`net: BUG: input 1 of add is nil`: func(b *graph.Builder) { ops.Add(b, one(b), nil) },
		`net: shapes do not fit: cannot assign fill f32[] to w f32[1]`: func(b *graph.Builder) {
			b.Assign(b.Var("w", shape.F32(1), graph.Parameter, graph.Init{}), one(b))
		},
		`net: shapes do not fit: cannot assign fill f32[] to x f32[]`: func(b *graph.Builder) {
			b.Assign(b.Input("x", shape.F32()), one(b))
		},
		`net: first`: func(b *graph.Builder) {
			b.Fail(errors.New("first"))
			b.Fail(errors.New("second"))
		},
		`net: BUG: gradient of lying has 0 values for 1 inputs`: func(b *graph.Builder) {
			x := b.Input("x", shape.F32())
			b.Gradients(b.One(lying{}, x), one(b), []*graph.Value{x}, ops.AddOp)
		},
		`net: BUG: gradient of lying for input 0 is f32[1], the input is f32[]`: func(b *graph.Builder) {
			x := b.Input("x", shape.F32())
			wrong := ops.ReshapeTo(b, one(b), 1)
			b.Gradients(b.One(lying{wrong}, x), one(b), []*graph.Value{x}, ops.AddOp)
		},
		`net: lying: shape [-1] has a negative dimension`: func(b *graph.Builder) {
			b.One(lying{}, b.Input("x", shape.F32(-1)))
		},
	} {
		b := graph.NewBuilder("net", 2)
		build(b)
		if _, err := b.Graph(); err == nil || err.Error() != want {
			t.Errorf("error is %v\nexpected %s", err, want)
		}
	}
}

// lying keeps its input's metadata and has a wrong gradient.
type lying struct{ wrong *graph.Value }

func (lying) Kind() string                                { return "lying" }
func (lying) Infer(in []shape.Meta) ([]shape.Meta, error) { return in, nil }
func (lying) Cost(_, _ []shape.Meta) graph.Cost           { return graph.Cost{} }
func (l lying) Grad(*graph.Builder, *graph.Node, []*graph.Value) []*graph.Value {
	if l.wrong == nil {
		return nil
	}
	return []*graph.Value{l.wrong}
}

func TestNamesAreUnique(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x := b.Input("x", shape.F32())
	b.In(fc2)
	ys := []*graph.Value{ops.Relu(b, x), ops.Relu(b, x), ops.Relu(b, x), b.Input("fc2.relu.1", shape.F32())}
	b.Output("y", ys[2])
	seen := map[string]bool{}
	for _, y := range ys {
		if seen[y.Name] {
			t.Errorf("%s names two values", y.Name)
		}
		seen[y.Name] = true
	}
	if !seen["fc2.relu"] || !seen["y"] {
		t.Errorf("names are %v", seen)
	}
	if g := done(t, b); g.Find("y") != ys[2] || g.Find("z") != nil {
		t.Error("Find does not find by name")
	}
}

func TestPruneKeepsWhatIsNeeded(t *testing.T) {
	build := func(microbatches int, use func(b *graph.Builder, sum, w *graph.Value)) string {
		b := graph.NewBuilder("net", microbatches)
		x := b.Input("x", shape.F32())
		w := b.Var("w", shape.F32(), graph.Parameter, graph.Init{})
		ops.Tanh(b, x) // never needed
		sum := b.Accumulate(ops.Square(b, x), ops.AddOp)
		b.Accumulate(ops.Exp(b, x), ops.AddOp) // a sum that nobody reads
		use(b, sum, w)
		g := done(t, b)
		if microbatches > 1 && len(g.Nodes) > 0 && (len(g.Accums) != 1 || g.Accums[0].Sum != sum) {
			t.Errorf("sums kept are %v", g.Accums)
		}
		return kinds(g)
	}
	for _, m := range []int{1, 3} {
		for name, c := range map[string]struct {
			use  func(b *graph.Builder, sum, w *graph.Value)
			want string
		}{
			"nothing":  {func(*graph.Builder, *graph.Value, *graph.Value) {}, ""},
			"read":     {func(b *graph.Builder, sum, _ *graph.Value) { b.Output("y", ops.Neg(b, sum)) }, "square neg"},
			"output":   {func(b *graph.Builder, sum, _ *graph.Value) { b.Output("y", sum) }, "square"},
			"assigned": {func(b *graph.Builder, sum, w *graph.Value) { b.Assign(w, sum) }, "square"},
			"both":     {func(b *graph.Builder, sum, w *graph.Value) { b.Assign(w, ops.Mul(b, sum, sum)) }, "square mul"},
		} {
			if got := build(m, c.use); got != c.want {
				t.Errorf("%s, %d microbatches: kept %q, expected %q", name, m, got, c.want)
			}
		}
	}
}

func TestPruneKeepsNodeNumbers(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x := b.Input("x", shape.F32())
	ops.Tanh(b, x)
	b.Output("y", ops.Exp(b, x))
	if g := done(t, b); len(g.Nodes) != 1 || g.Nodes[0].ID != 1 {
		t.Errorf("kept %v", g.Nodes)
	}
}

func TestAccumulate(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	part := ops.Square(b, b.Input("x", shape.F32(2)))
	if b.Accumulate(part, ops.AddOp) != part {
		t.Error("with one microbatch the sum is not the part")
	}
	b = graph.NewBuilder("net", 4)
	part = ops.Square(b, b.Input("x", shape.F32(2)))
	sum := b.Accumulate(part, ops.AddOp)
	b.Output("sum", sum)
	g := done(t, b)
	if sum.Kind != graph.Summed || sum.Name != "sum(square)" || !sum.Meta.Equal(part.Meta) {
		t.Errorf("the sum is %v, kind %v", sum, sum.Kind)
	}
	if len(g.Accums) != 1 || g.Accums[0] != (graph.Accum{Part: part, Sum: sum, Add: ops.AddOp}) {
		t.Errorf("accumulated are %v", g.Accums)
	}
}

func TestGradientsOfASharedVariableComeInGraphOrder(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x := b.Input("x", shape.F32(2, 3))
	w := b.Var("w", shape.F32(3, 3), graph.Parameter, graph.Init{})
	unused := b.Var("unused", shape.F32(3), graph.Parameter, graph.Init{})
	restore := b.In(fc2)
	first := ops.MatMulOf(b, x, w, false, false)
	second := ops.MatMulOf(b, first, w, false, true)
	third := ops.Mul(b, second, ops.SumToShape(b, w, shape.Of(3)))
	restore()
	loss := ops.Sum(b, third, false)
	grads := b.Gradients(loss, one(b), []*graph.Value{w, unused}, ops.AddOp)
	if b.Err() != nil {
		t.Fatal(b.Err())
	}
	want := []*graph.Node{first.Node, second.Node, third.Node.In[1].Node}
	if len(grads[w]) != len(want) || len(grads[unused]) != 0 {
		t.Fatalf("%d gradients of w, %d of what is not used", len(grads[w]), len(grads[unused]))
	}
	for i, g := range grads[w] {
		if n := g.Node; n.Of != want[i] || n.Phase != graph.Backward || n.Layer != fc2 {
			t.Errorf("gradient %d is of %v, in phase %v and layer %v", i, n.Of, n.Phase, n.Layer)
		}
	}
	if n := ops.Neg(b, x).Node; n.Of != nil || n.Phase != graph.Forward || n.Layer != nil {
		t.Errorf("what is appended later still belongs to the backward pass: %v", n)
	}
}

// An intermediate value's gradients are added before they flow on, once.
func TestGradientsOfAnIntermediateValueAreAdded(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	w := b.Var("w", shape.F32(2), graph.Parameter, graph.Init{})
	h := ops.Exp(b, w)
	loss := ops.Sum(b, ops.Add(b, ops.Tanh(b, h), ops.Square(b, h)), false)
	grads := b.Gradients(loss, one(b), []*graph.Value{w}, ops.AddOp)
	b.Output("grad", grads[w][0])
	g := done(t, b)
	if len(grads[w]) != 1 || grads[w][0].Node.In[1].Node.Op != graph.Op(ops.AddOp) {
		t.Errorf("the gradient is %v", grads[w])
	}
	if got := strings.Count(kinds(g), "exp_grad"); got != 1 {
		t.Errorf("exp is differentiated %d times", got)
	}
}

// A value that needs no gradient has none built.
func TestGradientsFlowOnlyToWhatIsAskedFor(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x, w := b.Input("x", shape.F32(2)), b.Var("w", shape.F32(2), graph.Parameter, graph.Init{})
	loss := ops.Sum(b, ops.Mul(b, ops.Exp(b, x), ops.Tanh(b, w)), false)
	b.Gradients(loss, one(b), []*graph.Value{w}, ops.AddOp)
	built := map[string]int{}
	for _, v := range done(t, b).Values { // of all nodes, also of those that were pruned
		if v.Node != nil {
			built[v.Node.Op.Kind()]++
		}
	}
	if built["tanh_grad"] != 1 || built["exp_grad"] != 0 {
		t.Errorf("built are %v", built)
	}
}

func TestCostSumsNodes(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x := b.Input("x", shape.F32(2, 3))
	b.Output("y", ops.MatMulOf(b, x, b.Input("w", shape.F32(3, 4)), false, false))
	b.Output("z", ops.Neg(b, x))
	if got, want := done(t, b).Cost(), (graph.Cost{Flops: 2*2*3*4 + 6, Bytes: 4 * (6 + 12 + 8 + 6 + 6)}); got != want {
		t.Errorf("cost is %+v, expected %+v", got, want)
	}
}
