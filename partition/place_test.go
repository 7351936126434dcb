package partition

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// in runs f in block name.
func in(b *graph.Builder, name string, f func() *graph.Value) *graph.Value {
	defer b.In(&graph.Layer{Type: "test", Name: name, Block: name})()
	return f()
}

// homeless is a graph of three blocks with nodes that belong to none of them;
// the values of want are looked up by these names.
func homeless() (*graph.Graph, map[string]*graph.Value, error) {
	b := graph.NewBuilder("homeless", 1)
	w := map[string]*graph.Value{}
	x := b.Input("x", shape.F32(2, 2))
	w["constant"] = ops.Const(b, shape.F32(2, 2), 3)
	w["of constant"] = ops.ScaleBy(b, w["constant"], 2)
	w["unused seed"] = ops.Const(b, shape.F32(), 1)
	x0 := in(b, "b0", func() *graph.Value { return ops.Mul(b, x, x) })
	x1 := in(b, "b1", func() *graph.Value { return ops.Add(b, x0, w["of constant"]) })
	w["between"] = ops.Add(b, x0, x1)
	v := in(b, "b2", func() *graph.Value { return b.Var("v", shape.F32(2, 2), graph.Parameter, graph.Init{}) })
	w["of variable"] = ops.Tanh(b, b.Var("free", shape.F32(2, 2), graph.Parameter, graph.Init{}))
	x2 := in(b, "b2", func() *graph.Value { return ops.Add(b, ops.Add(b, w["between"], v), w["of variable"]) })
	loss := ops.Sum(b, x2, false)
	w["loss"] = loss
	restore := b.InPhase(graph.Backward)
	seed := ops.ScaleBy(b, w["unused seed"], 4)
	w["seed"] = seed
	g := b.Gradients(loss, seed, []*graph.Value{v}, ops.AddOp)[v][0]
	w["after gradient"] = ops.Tanh(b, g)
	w["of forward"] = ops.Exp(b, x1)
	restore()
	defer b.InPhase(graph.Update)()
	gone := ops.Mul(b, g, w["after gradient"])
	w["norm"] = b.One(ops.SumSquares{}, gone)
	w["report"] = ops.ScaleBy(b, w["norm"], 2)
	b.Assign(v, ops.Sub(b, v, ops.Add(b, gone, w["of forward"])))
	b.Output("report", w["report"])
	b.Output("x2", x2)
	b.Output("loss", loss)
	graphed, err := b.Graph()
	return graphed, w, err
}

func TestNodesWithoutLayers(t *testing.T) {
	g, values, err := homeless()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: specs(3, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"constant": 1, "of constant": 1, // where the first reader is
		"between": 1, "loss": 2, // the latest among the inputs
		"of variable": 2, "unused seed": 2, "seed": 2,
		"after gradient": 2, "of forward": 1,
		"norm": 2, "report": 2,
	} {
		if got, ok := p.place.node[values[name].Node.ID]; !ok || got != want {
			t.Errorf("%s is on stage %d, want %d", name, got, want)
		}
	}
	if got := p.Owner(g.Find("free")); got != 2 {
		t.Errorf("a variable without a layer is on stage %d, its reader on 2", got)
	}
}

func TestAccessors(t *testing.T) {
	p := mustPlan(t, tiedNet(2), PlanOptions{Devices: specs(2, 0)})
	g := p.Graph
	for name, want := range map[string]device.Usage{
		"input": device.Input, "b0.weight": device.Weight, "b0.weight/momentum": device.OptState, "step": device.OptState, "ring": device.OptState,
		"b0.tanh": device.Activation, "backward/b1.matmul": device.Activation, "sum(loss)": device.Grad, "update/sum_squares": device.Grad,
	} {
		if got := p.Usage(g.Find(name)); got != want {
			t.Errorf("%s counts as %v, want %v", name, got, want)
		}
	}
	for _, a := range g.Assigns {
		if p.Identity(a.New) != a.Var {
			t.Errorf("%v is held by %v", a.New, p.Identity(a.New))
		}
	}
	if v := g.Find("b0.tanh"); p.Identity(v) != v {
		t.Error("an activation is held by another value")
	}
	if s := p.Segment(1, graph.Backward); s == nil || s.Name != "s1.B" {
		t.Errorf("segment %v", s)
	}
	for _, u := range p.Updates() {
		if u.Phase != graph.Update {
			t.Errorf("%s is among the updates", u.Name)
		}
	}
}

// TestForwardOnly plans a graph without backward pass or update.
func TestForwardOnly(t *testing.T) {
	b := graph.NewBuilder("predict", 1)
	x := b.Input("x", shape.F32(2))
	for _, name := range []string{"a", "b"} {
		x = in(b, name, func() *graph.Value { return ops.Tanh(b, x) })
	}
	b.Output("y", x)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: specs(2, 0), Microbatches: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Segments) != 2 || p.Segment(0, graph.Backward) != nil || len(p.Updates()) != 0 {
		t.Error(p.Dump())
	}
	if u := p.Segments[1].Unread; len(u) != 1 || u[0].Name != "y" {
		t.Errorf("unread %v", u)
	}
}

func TestNoBlocks(t *testing.T) {
	b := graph.NewBuilder("bare", 1)
	b.Output("y", ops.Tanh(b, b.Input("x", shape.F32(2))))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: specs(3, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Stages) != 1 || len(p.Segments) != 1 || !strings.Contains(p.Table(), "no layers to cut at") {
		t.Error(p.Table())
	}
	if _, err := New(g, PlanOptions{Devices: specs(1, 0), Stages: [][]string{{"head"}}}); !errors.Is(err, ErrStages) {
		t.Error(err)
	}
	if _, err := New(g, PlanOptions{Devices: specs(1, 1)}); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "has no layers") {
		t.Error(err)
	}
}
