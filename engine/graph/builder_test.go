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
		`net: input 1 of add is nil: give a value of this builder`: func(b *graph.Builder) { ops.Add(b, one(b), nil) },
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
		`net: BUG: Grad of lying gives 0 values for 1 inputs: give one for each`: func(b *graph.Builder) {
			x := b.Input("x", shape.F32())
			b.Gradients(b.One(lying{}, x), one(b), []*graph.Value{x}, ops.AddOp)
		},
		`net: BUG: Grad of lying gives f32[1] for input 0, which is f32[]: give the input's shape`: func(b *graph.Builder) {
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
