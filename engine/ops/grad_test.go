package ops_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// probe is a graph whose loss is a weighted sum of an op's first output, with its
// inputs.
type probe struct {
	g     *graph.Graph
	in    []*graph.Value
	loss  *graph.Value
	grads map[*graph.Value][]*graph.Value
	feed  map[*graph.Value]ref.Array
}

func newProbe(t *rapid.T, s sample) probe {
	b := graph.NewBuilder("probe", 1)
	p := probe{feed: map[*graph.Value]ref.Array{}}
	for _, a := range s.in {
		v := b.Input("in", a.Meta)
		p.in, p.feed[v] = append(p.in, v), a
	}
	y := b.One(s.op, p.in...)
	if b.Err() != nil {
		t.Fatalf("build: %v", b.Err())
	}
	weights := b.Input("weights", y.Meta)
	p.feed[weights] = spread(t, 0.5, 1.5, y.Meta.Shape...)
	p.loss = ops.Sum(b, ops.Mul(b, y, weights), false)
	var wrt []*graph.Value
	for _, i := range s.diff {
		wrt = append(wrt, p.in[i])
	}
	p.grads = b.Gradients(p.loss, ops.Const(b, shape.F32(), 1), wrt, ops.AddOp)
	b.Output("loss", p.loss)
	for _, v := range wrt {
		for _, g := range p.grads[v] {
			b.Output("grad", g)
		}
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatalf("gradients: %v", err)
	}
	p.g = g
	return p
}

func (p probe) eval(t *rapid.T) map[*graph.Value]ref.Array {
	vals, err := ref.Eval(p.g, p.feed)
	if err != nil {
		t.Fatalf("eval: %v", err)
	}
	return vals
}

// slope is the central difference of the loss in one element.
func (p probe) slope(t *rapid.T, v *graph.Value, i int) float64 {
	const h = 1e-5
	x := p.feed[v].F
	old := x[i]
	x[i] = old + h
	up := p.eval(t)[p.loss].F[0]
	x[i] = old - h
	down := p.eval(t)[p.loss].F[0]
	x[i] = old
	return (up - down) / (2 * h)
}

func (p probe) check(t *rapid.T, s sample) {
	vals := p.eval(t)
	for _, k := range s.diff {
		v := p.in[k]
		if len(p.grads[v]) != 1 {
			t.Fatalf("input %d of %s has %d gradients, expected 1", k, graph.OpString(s.op), len(p.grads[v]))
		}
		got := vals[p.grads[v][0]].F
		for range min(len(got), 6) {
			i := num(t, 0, len(got)-1, "element")
			want := p.slope(t, v, i)
			if math.Abs(got[i]-want) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("%s of %v: gradient of input %d at %d is %v, finite difference %v",
					graph.OpString(s.op), graph.Metas(p.in), k, i, got[i], want)
			}
		}
	}
}

func TestGradientsAgreeWithFiniteDifferences(t *testing.T) {
	for kind, draw := range draws {
		if slices.Contains(flat, kind) || slices.Contains(generating, kind) {
			continue
		}
		t.Run(kind, rapid.MakeCheck(func(t *rapid.T) {
			s := draw(t)
			newProbe(t, s).check(t, s)
		}))
	}
}

// What the gradient of one op is made of is found in the graph that the finite
// differences of that op are taken on.
func TestGradientOpsAreExercisedByTheirForwardOp(t *testing.T) {
	for kind, forward := range vias {
		t.Run(kind, rapid.MakeCheck(func(t *rapid.T) {
			p := newProbe(t, draws[forward](t))
			i := slices.IndexFunc(p.g.Nodes, func(n *graph.Node) bool { return n.Op.Kind() == kind })
			if i < 0 {
				t.Fatalf("the gradient of %s does not use %s", forward, kind)
			}
			n := p.g.Nodes[i]
			checkCost(t, n.Op, graph.Metas(n.In), graph.Metas(n.Out))
			checkAlias(t, n.Op, graph.Metas(n.In), graph.Metas(n.Out))
		}))
	}
}

func TestFlatOpsHaveNoGradient(t *testing.T) {
	for _, kind := range flat {
		t.Run(kind, rapid.MakeCheck(func(t *rapid.T) {
			s := draws[kind](t)
			b := graph.NewBuilder("flat", 1)
			var in []*graph.Value
			for _, a := range s.in {
				in = append(in, b.Input("in", a.Meta))
			}
			out := b.Apply(s.op, in...)
			dx := s.op.Grad(b, out[0].Node, out)
			if b.Err() != nil || len(dx) != len(in) {
				t.Fatalf("%d gradients for %d inputs, error %v", len(dx), len(in), b.Err())
			}
			for i, d := range dx {
				if d != nil {
					t.Fatalf("input %d has a gradient", i)
				}
			}
		}))
	}
}

func TestSecondDerivativesAreRefused(t *testing.T) {
	for kind, forward := range vias {
		t.Run(kind, rapid.MakeCheck(func(t *rapid.T) {
			p := newProbe(t, draws[forward](t))
			i := slices.IndexFunc(p.g.Nodes, func(n *graph.Node) bool { return n.Op.Kind() == kind })
			b, n := graph.NewBuilder("second", 1), p.g.Nodes[i]
			if dx := n.Op.Grad(b, n, n.Out); len(dx) != len(n.In) {
				t.Fatalf("%d gradients for %d inputs", len(dx), len(n.In))
			}
			if !errors.Is(b.Err(), ops.ErrNoGradient) {
				t.Fatalf("error is %v", b.Err())
			}
		}))
	}
}

// Outputs that are kept for the backward pass cannot be trained through: that
// must be said, not ignored.
func TestLossThroughASavedOutputIsRefused(t *testing.T) {
	for kind, out := range map[string]int{"cross_entropy": 1, "layer_norm": 1, "batch_norm": 2, "attention": 1, "rms_norm": 1} {
		t.Run(kind, rapid.MakeCheck(func(t *rapid.T) {
			s := draws[kind](t)
			b := graph.NewBuilder("saved", 1)
			var in []*graph.Value
			for _, a := range s.in {
				in = append(in, b.Input("in", a.Meta))
			}
			loss := ops.Sum(b, b.Apply(s.op, in...)[out], false)
			b.Gradients(loss, ops.Const(b, shape.F32(), 1), in[:1], ops.AddOp)
			if !errors.Is(b.Err(), ops.ErrNoGradient) {
				t.Fatalf("error is %v", b.Err())
			}
		}))
	}
}
