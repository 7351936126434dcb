package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition/nets"
)

// drawPins pins some ops and blocks of a graph to devices of the first replica.
func drawPins(t *rapid.T, g *graph.Graph, o *PlanOptions) {
	o.Pin = map[string]int{}
	per := o.pipeline().PerReplica()
	for _, n := range g.Nodes {
		if n.Phase == graph.Forward && n.Layer != nil && rapid.IntRange(0, 3).Draw(t, "pin") == 0 {
			o.Pin[n.Out[0].Name] = rapid.IntRange(0, per-1).Draw(t, "device")
		}
	}
	if o.Stages != nil && rapid.Bool().Draw(t, "block") {
		o.Pin["b0"] = rapid.IntRange(0, per-1).Draw(t, "device")
	}
}

// checkPins checks that each pinned op of a plan is on its device, and its gradient with it. A sum of gradients is where they
// are made.
func checkPins(t *rapid.T, p *Plan, pins map[string]int) {
	t.Helper()
	on := func(n *graph.Node) int { return p.cut.Device[p.place.Node[n.ID]] }
	for _, n := range p.Graph.Nodes {
		of := n
		if n.Phase == graph.Backward && n.Of != nil && n.Op != ops.AddOp {
			of = n.Of
		}
		if d, pinned := pins[of.Out[0].Name]; pinned && on(n) != d {
			t.Fatalf("%v is on device %d, and %s is pinned to %d", n, on(n), of.Out[0].Name, d)
		}
	}
}

// A step whose ops are pinned to any devices is that of the whole graph, to the bit. An evaluation, which lacks some of them,
// has the others where the step has them.
func TestPinnedOps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := nets.Draw(t)
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		o := drawOptions(t, s)
		drawPins(t, g, &o)
		p, err := New(g, o)
		if err != nil {
			t.Fatalf("%v: %v", o.Pin, err)
		}
		checkPlan(t, p)
		checkPins(t, p, o.Pin)
		if n := p.BaseStages(); n < 1 || n > len(p.Stages) {
			t.Fatalf("%d of %d stages", n, len(p.Stages))
		}
		vars, in := start(g, s.Microbatches, 1)
		want, err := runWhole(g, vars, in, o.Reduction)
		if err != nil {
			t.Fatal(err)
		}
		got, err := newMachine(p, vars, in).runStep(StepOptions{Microbatches: s.Microbatches})
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatal(d)
		}
		if _, err := Derive(p, p.Graph, DeriveOptions{For: Checked}); err != nil {
			t.Fatal(err)
		}
		smaller := s
		smaller.Batch++
		if g, err = smaller.Build(); err == nil {
			_, err = Derive(p, g, DeriveOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Dropout = false
		if g, err = s.Build(); err != nil {
			t.Fatal(err)
		}
		answers, err := Derive(p, forward(g), DeriveOptions{For: Answers})
		if err != nil {
			t.Fatal(err)
		}
		checkPins(t, answers, o.Pin)
	})
}

// forward is the forward pass of a graph.
func forward(g *graph.Graph) *graph.Graph {
	f := *g
	f.Nodes = slices.DeleteFunc(slices.Clone(g.Nodes), func(n *graph.Node) bool { return n.Phase != graph.Forward })
	f.Vars = slices.DeleteFunc(slices.Clone(g.Vars), func(v *graph.Value) bool { return v.Role != graph.Parameter })
	f.Outputs = slices.DeleteFunc(slices.Clone(g.Outputs), func(v *graph.Value) bool { return v.Kind == graph.Summed })
	f.Accums, f.Assigns = nil, nil
	return &f
}

// stagesText is the stages of a plan: their devices and pieces, and their causes.
func stagesText(p *Plan) (stages, causes string) {
	for _, s := range p.Stages {
		stages += fmt.Sprintf("%d %v ", s.Device, s.Blocks)
		causes += s.Cause + "\n"
	}
	return strings.TrimSpace(stages), causes
}

// An op leaves its stage alone, or joins the stage next to it that is on its device.
func TestPinnedOpsAreApart(t *testing.T) {
	for _, c := range []struct {
		pin    map[string]int
		o      PlanOptions
		stages string
		base   int
		cause  string
	}{
		{map[string]int{"b1.add": 1}, PlanOptions{Count: 1}, "0 [b0 b1:1] 1 [b1.add] 0 [b1:2 b2]", 1, "b1.add is pinned here\n"},
		{map[string]int{"b1.add": 0}, PlanOptions{Count: 1}, "0 [b0 b1:1 b1.add b1:2 b2]", 1, ", b1.add is pinned here\n"},
		{map[string]int{"b0.add": 1, "b1.matmul": 1, "b0.tanh": 1}, PlanOptions{Count: 1}, "0 [b0:1] 1 [b0.add b0.tanh b1.matmul] 0 [b1:2 b2]", 1, "b0.add and b0.tanh and b1.matmul are pinned here\n"},
		{map[string]int{"b1.matmul": 0}, PlanOptions{Stages: [][]string{{"b0"}, {"b1", "b2"}}}, "0 [b0 b1.matmul] 1 [b1:2 b2]", 2, "by hand, b1.matmul is pinned here\n"},
		{map[string]int{"b0.tanh": 1}, PlanOptions{Stages: [][]string{{"b0"}, {"b1", "b2"}}}, "0 [b0:1] 1 [b0.tanh b1 b2]", 2, "by hand, b0.tanh is pinned here\n"},
		{map[string]int{"b2.add": 0, "b2": 1}, PlanOptions{Stages: [][]string{{"b0", "b1"}, {"b2"}}}, "0 [b0 b1] 1 [b2:1] 0 [b2.add] 1 [b2:2]", 2, "by hand, b2 is pinned here, shares"},
		{map[string]int{"b1.add": 1}, PlanOptions{Stages: [][]string{{"b0", "b1:1"}, {"b1.add"}, {"b1:2", "b2"}}, On: []int{0, 1, 0}, Why: "before"}, "0 [b0 b1:1] 1 [b1.add] 0 [b1:2 b2]", 1, "before, b1.add is pinned here\n"},
	} {
		c.o.Devices, c.o.Pin = nets.Specs(2, 0), c.pin
		p := mustPlan(t, nets.Chain(3, 4, 2, 2), c.o)
		stages, causes := stagesText(p)
		if stages != c.stages || p.BaseStages() != c.base || !strings.Contains(causes, c.cause) || p.Fewer != nil {
			t.Errorf("%v: %s, of %d; %v\n%s", c.pin, stages, p.BaseStages(), p.Fewer, causes)
		}
	}
}

// Ops that cannot be pinned are refused by name.
func TestPinnedOpsRefused(t *testing.T) {
	b := graph.NewBuilder("loop", 1)
	x := b.Input("x", shape.F32(2))
	restore := b.In(&graph.Layer{Type: "gru", Name: "rec", Block: "rec", Iterations: 2})
	x = ops.Exp(b, ops.Tanh(b, x))
	restore()
	b.Output("y", ops.Neg(b, x))
	loop, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	net := mustBuild(t, nets.Chain(3, 4, 2, 2))
	order := written(t, "schedule f stages 2 microbatches 2\n0: 0F0 0F1 0B0 0B1 0U\n1: 1F0 1B0 1F1 1B1 1U\n")
	for want, c := range map[string]struct {
		g *graph.Graph
		o PlanOptions
	}{
		`"b1.mul" is pinned to cpu:1, but the model has no such block or op (nearest: "b1.matmul"); its blocks are b0, b1, b2; the ops of layer b1 are b1.matmul, b1.add, b1.tanh`: {net, PlanOptions{Pin: map[string]int{"b1.mul": 1}}},
		`"backward/b1.matmul" is of the backward pass; it goes with the op that it differentiates: pin "b1.matmul"`:                                                                {net, PlanOptions{Pin: map[string]int{"backward/b1.matmul": 1}}},
		`"update/sgd" is not of the forward pass`:                                                  {net, PlanOptions{Pin: map[string]int{"update/sgd": 1}}},
		`"rec.tanh" is in layer 0 (gru "rec"), whose loops stay in one place; pin the block "rec"`: {loop, PlanOptions{Pin: map[string]int{"rec.tanh": 1}}},
		`"y" is an op of no block`:                                                                 {loop, PlanOptions{Pin: map[string]int{"y": 1}}},
		`the schedule "f" is for 2 stages, and ops that are pinned need 4`:                         {net, PlanOptions{Pin: map[string]int{"b1.add": 1}, Stages: [][]string{{"b0", "b1"}, {"b2"}}, Order: order}},
		`op "b1.add" is pinned to cpu:1, which does not run it`: {net, PlanOptions{Pin: map[string]int{"b1.add": 1}, Count: 1, Supports: onlyRuns(func(d int, n *graph.Node) bool {
			return d == 1 && n.Out[0].Name == "b1.add"
		})}},
	} {
		c.o.Devices, c.o.Microbatches = nets.Specs(2, 0), 2
		var pin *PinError
		if _, err := New(c.g, c.o); !errors.As(err, &pin) || !errors.Is(err, ErrStages) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
