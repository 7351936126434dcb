package graph_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

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
