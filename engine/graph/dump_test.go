package graph_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// small is a step of two microbatches with one parameter: names start with
// prefix, and options change one thing each.
type small struct {
	prefix          string
	width           int
	fn              string
	scale           float64
	swapIn, swapOut bool
	microbatches    int
	layer           *graph.Layer
	keep            bool
}

func (s small) build(t *testing.T) *graph.Graph {
	b := graph.NewBuilder(s.prefix+"net", max(2, s.microbatches))
	if s.layer != nil {
		b.In(s.layer)
	}
	x := b.Input(s.prefix+"x", shape.F32(4, s.width))
	y := b.Input(s.prefix+"y", shape.F32(4, s.width))
	if s.swapIn {
		x, y = y, x
	}
	w := b.Var(s.prefix+"w", shape.F32(s.width), graph.Parameter, graph.Init{})
	loss := b.One(ops.MSE{}, b.One(ops.Unary{Fn: s.fn}, ops.Mul(b, x, w)), y)
	grad := b.Gradients(loss, one(b), []*graph.Value{w}, ops.AddOp)[w][0]
	restore := b.InPhase(graph.Update)
	next := b.One(ops.SGD{Scale: s.scale}, w, b.Accumulate(grad, ops.AddOp), ops.Const(b, shape.F32(), 0.1))
	if !s.keep {
		b.Assign(w, next)
	}
	restore()
	outs := []*graph.Value{loss, next}
	if s.swapOut {
		outs[0], outs[1] = outs[1], outs[0]
	}
	b.Output(s.prefix+"first", outs[0])
	b.Output(s.prefix+"second", outs[1])
	return done(t, b)
}

var plain = small{width: 3, fn: "tanh", scale: 1}

func TestText(t *testing.T) {
	s := plain
	s.layer = fc2
	const want = `graph net: 10 nodes
input x f32[4,3]
input y f32[4,3]
parameter w f32[3]
forward:
  fc2.mul f32[4,3] = mul{Fn:mul}(x, w)  # layer 3 (dense "fc2")
  fc2.tanh f32[4,3] = tanh{Fn:tanh}(fc2.mul)  # layer 3 (dense "fc2")
  first f32[] = mse{}(fc2.tanh, y)  # layer 3 (dense "fc2")
  fc2.fill f32[] = fill{Meta:f32[] Value:1}()  # layer 3 (dense "fc2")
backward:
  backward/fc2.mse_grad f32[4,3] = mse_grad{}(fc2.tanh, y, fc2.fill)  # layer 3 (dense "fc2")
  backward/fc2.tanh_grad f32[4,3] = tanh_grad{Fn:tanh}(fc2.tanh, backward/fc2.mse_grad)  # layer 3 (dense "fc2")
  backward/fc2.mul.1 f32[4,3] = mul{Fn:mul}(backward/fc2.tanh_grad, x)  # layer 3 (dense "fc2")
  backward/fc2.sum_to f32[3] = sum_to{Shape:[3]}(backward/fc2.mul.1)  # layer 3 (dense "fc2")
update:
  update/fc2.fill f32[] = fill{Meta:f32[] Value:0.1}()  # layer 3 (dense "fc2")
  second f32[3] = sgd{Momentum:0 Nesterov:false WeightDecay:0 Scale:1 Clip:false}(w, sum(backward/fc2.sum_to), update/fc2.fill)  # layer 3 (dense "fc2")
sum sum(backward/fc2.sum_to) f32[3] = add over microbatches of backward/fc2.sum_to
assign w <- second
output first f32[]
output second f32[3]
`
	if got := s.build(t).Text(); got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
}

func TestDOT(t *testing.T) {
	g := plain.build(t)
	dot := g.DOT()
	for want, n := range map[string]int{
		`digraph "net" {`:   1,
		`shape=box`:         len(g.Nodes),
		`shape=ellipse`:     len(g.Inputs) + len(g.Vars) + len(g.Accums),
		`style=dashed`:      len(g.Accums) + len(g.Assigns),
		`shape=plaintext`:   len(g.Outputs),
		`label="w\nf32[3]"`: 1,
		`fillcolor=palegreen tooltip="sgd{Momentum:0`: 1,
	} {
		if got := strings.Count(dot, want); got != n {
			t.Errorf("%d times %s, expected %d, in\n%s", got, want, n, dot)
		}
	}
	edges := len(g.Accums) + len(g.Assigns) + len(g.Outputs)
	for _, n := range g.Nodes {
		edges += len(n.In)
	}
	if got := strings.Count(dot, " -> "); got != edges {
		t.Errorf("%d edges, expected %d", got, edges)
	}
}

// A part of a graph reads values that nothing in it declares.
func TestDOTOfASegment(t *testing.T) {
	g := *plain.build(t)
	g.Inputs, g.Vars, g.Accums, g.Assigns = nil, nil, nil, nil
	if dot := g.DOT(); strings.Count(dot, "shape=ellipse") != 4 {
		t.Errorf("expected x, y, w and the sum as ellipses in\n%s", dot)
	}
}

func TestSignature(t *testing.T) {
	base := graph.Signature(plain.build(t))
	if len(base) != 32 {
		t.Errorf("signature %s has %d digits", base, len(base))
	}
	for name, change := range map[string]func(s *small){
		"nothing":      func(*small) {},
		"names":        func(s *small) { s.prefix = "other." },
		"layer":        func(s *small) { s.layer = fc2 },
		"microbatches": func(s *small) { s.microbatches = 5 },
	} {
		s := plain
		change(&s)
		if graph.Signature(s.build(t)) != base {
			t.Errorf("%s changes the signature", name)
		}
	}
	seen := map[string]string{base: "nothing"}
	for name, change := range map[string]func(s *small){
		"shapes":          func(s *small) { s.width = 4 },
		"an op":           func(s *small) { s.fn = "sigmoid" },
		"an attribute":    func(s *small) { s.scale = 0.5 },
		"order of inputs": func(s *small) { s.swapIn = true },
		"order of output": func(s *small) { s.swapOut = true },
		"assignments":     func(s *small) { s.keep = true },
	} {
		s := plain
		change(&s)
		sig := graph.Signature(s.build(t))
		if other, known := seen[sig]; known {
			t.Errorf("%s and %s have one signature", name, other)
		}
		seen[sig] = name
	}
}
