package place_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/nodes"
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
	w["read twice"] = ops.Const(b, shape.F32(2, 2), 5)
	w["unused seed"] = ops.Const(b, shape.F32(), 1)
	x0 := in(b, "b0", func() *graph.Value { return ops.Mul(b, x, x) })
	x1 := in(b, "b1", func() *graph.Value { return ops.Add(b, ops.Add(b, x0, w["of constant"]), w["read twice"]) })
	w["between"] = ops.Add(b, x0, x1)
	v := in(b, "b2", func() *graph.Value { return b.Var("v", shape.F32(2, 2), graph.Parameter, graph.Init{}) })
	w["of variable"] = ops.Tanh(b, b.Var("free", shape.F32(2, 2), graph.Parameter, graph.Init{}))
	x2 := in(b, "b2", func() *graph.Value {
		return ops.Mul(b, ops.Add(b, ops.Add(b, w["between"], v), w["of variable"]), w["read twice"])
	})
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
	s := passes.EachBlock(3)
	_, p := s.Place(t, s.Index(t, g, 1))
	for name, want := range map[string]int{
		"constant": 1, "of constant": 1, "read twice": 1, // where the first reader is
		"between": 1, "loss": 2, // the latest among the inputs
		"of variable": 2, "unused seed": 2, "seed": 2,
		"after gradient": 2, "of forward": 1,
		"norm": 2, "report": 2,
	} {
		if got, ok := p.Of(values[name].Node); !ok || got != want {
			t.Errorf("%s is on stage %d, want %d", name, got, want)
		}
	}
	if got := p.Owner[g.Find("free").Name]; got != 2 {
		t.Errorf("a variable without a layer is on stage %d, its reader on 2", got)
	}
}

// TestPlaces checks the rules of placement on the tied net.
func TestPlaces(t *testing.T) {
	g, s := passes.Build(t, nets.Tied(2)), passes.EachBlock(3)
	idx, p := s.Place(t, s.Index(t, g, 2))
	for name, want := range map[string]int{
		"b0.weight": 0, "b0.weight/momentum": 0, "b1.weight": 1, "b1.bias/momentum": 1, "b2.bias": 2, "step": 2, "ring": 2,
	} {
		if got := p.Owner[g.Find(name).Name]; got != want {
			t.Errorf("%s lives on stage %d, want %d", name, got, want)
		}
	}
	for _, n := range g.Nodes {
		got := p.Node[n.ID]
		switch n.Op.Kind() {
		case "clip_factor", "learning_rate", "mse", "ring_write", "increment":
			if got != 2 {
				t.Errorf("%v is on stage %d, want 2", n, got)
			}
		case "sum_squares": // where the gradient is: one number crosses, not a tensor
			if want := p.Node[idx.Readers[n.In[0].ID][0].ID]; got != want {
				t.Errorf("%v is on stage %d, its gradient is used on %d", n, got, want)
			}
		}
		if n.Phase == graph.Backward && n.Of != nil && got != p.Node[n.Of.ID] {
			t.Errorf("%v is on stage %d, the node it differentiates on %d", n, got, p.Node[n.Of.ID])
		}
	}
}

// TestEverythingIsPlaced: every node of a random graph has a stage, and every variable an
// owner. Layers are where their block is, parameters where they are read first, and a variable
// that the update assigns is where its new value is made.
func TestEverythingIsPlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		g := passes.Build(t, n)
		s.Shard = false
		idx, p := s.Place(t, s.Index(t, g, n.Microbatches))
		stages := s.Groups(nodes.Blocks(g))
		for _, x := range g.Nodes {
			at, ok := p.Of(x)
			if !ok || at < 0 || at >= len(s.Begins) {
				t.Fatalf("%v is on stage %d of %d", x, at, len(s.Begins))
			}
			if b := nodes.BlockOf(x.Layer); b != "" && x.Phase == graph.Forward && at != stages[b] {
				t.Fatalf("%v is on stage %d, its block on %d", x, at, stages[b])
			}
		}
		for _, v := range g.Vars {
			at, ok := p.Owner[v.Name]
			if !ok || at < 0 || at >= len(s.Begins) {
				t.Fatalf("%s is on stage %d of %d: %v", v.Name, at, len(s.Begins), ok)
			}
			if a := idx.Assigned[v.ID]; a != nil && p.Node[a.ID] != at {
				t.Fatalf("%s is on stage %d, its new value on %d", v.Name, at, p.Node[a.ID])
			}
			for _, r := range idx.Readers[v.ID] {
				if v.Role == graph.Parameter && r.Phase == graph.Forward && p.Node[r.ID] < at {
					t.Fatalf("%s is on stage %d, and %v reads it on %d", v.Name, at, r, p.Node[r.ID])
				}
			}
		}
	})
}
