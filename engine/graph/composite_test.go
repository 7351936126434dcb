package graph_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// swish is x * sigmoid(Beta x), of parts.
type swish struct{ Beta float64 }

func (swish) Kind() string { return "swish" }

func (o swish) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value {
	if len(in) != 1 {
		b.Fail(errors.New("swish takes one input"))
		return nil
	}
	return []*graph.Value{ops.Mul(b, in[0], ops.Sigmoid(b, ops.ScaleBy(b, in[0], o.Beta)))}
}

var swishOf2 = swish{2}

// half is a swish whose gradient is said to be dy/2.
type half struct{ swish }

func (half) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if len(n.In) != 1 || len(n.Out) != 1 || n.Out[0].Meta.Shape.Rank() != 1 {
		panic("n is not the whole")
	}
	return []*graph.Value{ops.ScaleBy(b, dy[0], 0.5)}
}

// twice applies an op twice.
type twice struct{ Op graph.Op }

func (twice) Kind() string { return "twice" }

func (o twice) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value {
	return b.Apply(o.Op, b.One(o.Op, in...))
}

// slope is the gradient of the sum of op(x) at x.
func slope(t *testing.T, op graph.Op, x float64) float64 {
	t.Helper()
	b := graph.NewBuilder("net", 1)
	in := b.Input("x", shape.F32(1))
	y := b.One(op, in)
	parts := b.Gradients(y, ops.Const(b, y.Meta, 1), []*graph.Value{in}, ops.AddOp)[in]
	if b.Err() != nil {
		t.Fatal(b.Err())
	}
	sum := parts[0]
	for _, p := range parts[1:] {
		sum = ops.Add(b, sum, p)
	}
	b.Output("slope", sum)
	out, err := ref.Eval(done(t, b), map[*graph.Value]ref.Array{in: ref.Floats([]float64{x}, 1)})
	if err != nil {
		t.Fatal(err)
	}
	return out[sum].F[0]
}

func TestComposite(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x := b.Input("x", shape.F32(3))
	b.Output("y", b.One(graph.Compose(twice{graph.Compose(swish{2})}), x))
	if got, want := kinds(done(t, b)), "affine sigmoid mul affine sigmoid mul"; got != want {
		t.Errorf("the nodes are %s, expected %s", got, want)
	}
	nested := graph.Compose(twice{graph.Compose(swish{2})})
	if _, err := nested.Infer([]shape.Meta{shape.F32(3)}); err != nil {
		t.Error(err)
	}
	type swish struct{ given }
	if graph.OpString(graph.Compose(swish{})) == graph.OpString(graph.Compose(twice{})) {
		t.Error("two types print alike")
	}
	_, err := graph.Compose(swish{}).Infer(nil)
	if err == nil || !strings.Contains(err.Error(), "field given: graph_test.given does not print") {
		t.Errorf("a function as attribute gives %v", err)
	}
	op := graph.Compose(swishOf2)
	if out, err := op.Infer([]shape.Meta{shape.F32(3)}); err != nil || !out[0].Equal(shape.F32(3)) {
		t.Errorf("Infer gives %v and %v", out, err)
	}
	if c := op.Cost([]shape.Meta{shape.F32(3)}, nil); c.Flops < 3*3 {
		t.Errorf("the cost is %+v", c)
	}
	if s := graph.OpString(op); !strings.Contains(s, "2") {
		t.Errorf("the attributes are missing in %s", s)
	}
}

func TestCompositesGradient(t *testing.T) {
	parts := slope(t, graph.Compose(swish{1}), 0) // sigmoid(0)
	for name, c := range map[string]struct {
		op   graph.Op
		want float64
	}{
		"parts":                {graph.Compose(swish{1}), 0.5},
		"own":                  {graph.Compose(half{swish{1}}), 0.5},
		"twice parts":          {graph.Compose(twice{graph.Compose(swish{1})}), parts * parts},
		"own within":           {graph.Compose(twice{graph.Compose(half{swish{3}})}), 0.25},
		"own within an own":    {graph.Compose(eighth{twice{graph.Compose(half{swish{3}})}}), 0.125},
		"own ends with an own": {graph.Compose(twice{graph.Compose(eighth{twice{graph.Compose(half{})}})}), 1. / 64},
	} {
		if got := slope(t, c.op, 0); got != c.want {
			t.Errorf("%s: the gradient is %v, expected %v", name, got, c.want)
		}
	}
	if got := slope(t, graph.Compose(half{swish{1}}), 7); got != 0.5 {
		t.Errorf("the gradient is %v and so that of the parts", got)
	}
}

// eighth is a composite whose gradient is said to be dy/8.
type eighth struct{ twice }

func (eighth) Grad(b *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{ops.ScaleBy(b, dy[0], 0.125)}
}

// given is a composite of a function.
type given func(b *graph.Builder, in []*graph.Value) []*graph.Value

func (given) Kind() string { return "given" }

func (f given) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value { return f(b, in) }

// reading is a composite with a gradient of its own that reads another value.
type reading struct{ other *graph.Value }

func (reading) Kind() string { return "reading" }

func (o reading) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value {
	return []*graph.Value{ops.Add(b, in[0], o.other)}
}

func (reading) Grad(_ *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value { return dy }

func TestWrongComposites(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	other := b.Input("other", shape.F32(3))
	for want, c := range map[string]graph.Composite{
		"given has 0 results: return 1 to 1024": given(func(*graph.Builder, []*graph.Value) []*graph.Value { return nil }),
		"result 0 of given is nil":              given(func(*graph.Builder, []*graph.Value) []*graph.Value { return make([]*graph.Value, 1) }),
		"result 0 of given is its input 0":      given(func(_ *graph.Builder, in []*graph.Value) []*graph.Value { return in }),
		"results 0 and 1 of given are one value": given(func(b *graph.Builder, in []*graph.Value) []*graph.Value {
			y := ops.Relu(b, in[0])
			return []*graph.Value{y, y}
		}),
		"the op given panicked in Expand: oh":                      given(func(*graph.Builder, []*graph.Value) []*graph.Value { panic("oh") }),
		"reading has a gradient of its own but reads other f32[3]": reading{other},
	} {
		b := graph.NewBuilder("net", 1)
		outs := b.Apply(graph.Compose(c), b.Input("x", shape.F32(3)))
		if _, err := b.Graph(); err == nil || !strings.Contains(err.Error(), want) || outs[0] == nil {
			t.Errorf("the error is %v, expected %s", err, want)
		}
	}
}

// In a region, a composite with a gradient of its own reads the stand-ins.
func TestCompositeInARegion(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x := b.Input("x", shape.F32(1))
	var y *graph.Value
	b.Region(func(outside *graph.Value) *graph.Value { return b.One(ops.Unary{Fn: "neg"}, outside) }, func() {
		y = b.One(graph.Compose(half{swish{1}}), x)
	})
	b.Output("slope", b.Gradients(y, ops.Const(b, y.Meta, 1), []*graph.Value{x}, ops.AddOp)[x][0])
	g := done(t, b)
	out, err := ref.Eval(g, map[*graph.Value]ref.Array{x: ref.Floats([]float64{3}, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if got := out[g.Outputs[0]].F[0]; got != -0.5 {
		t.Errorf("the gradient is %v, expected -0.5", got)
	}
}
