package pieces

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
)

func build(t *testing.T, n nets.Net) *graph.Graph {
	t.Helper()
	g, err := n.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Blocks are cut before and behind each op, in the order of the graph, with the variables and gradients of each piece. The
// graph that was cut stays as it is, and cutting again changes nothing.
func TestApply(t *testing.T) {
	n := nets.Chain(2, 4, 2, 2)
	n.Dropout, n.Stats = true, true
	g := build(t, n)
	p, err := Find(g, []string{"b0.tanh", "b0.dropout", "b0.matmul", "b1", "none"})
	if err != nil || !slices.Equal(p, Pieces{{"b0.matmul", "b0"}, {"b0.tanh", "b0"}, {"b0.dropout", "b0"}}) {
		t.Fatal(p, err)
	}
	want := []string{"b0.matmul", "b0:2", "b0.tanh", "b0.dropout", "b0:4", "b1"}
	cut, err := p.Apply(g, stop.When(nil))
	if err != nil || !slices.Equal(nodes.Blocks(cut), want) || !slices.Equal(nodes.Blocks(g), []string{"b0", "b1"}) {
		t.Fatalf("%v, of %v, %v", nodes.Blocks(cut), nodes.Blocks(g), err)
	}
	for name, block := range map[string]string{"b0.weight": "b0.matmul", "b0.bias": "b0:2", "b0.mean": "b0.matmul", "b1.weight": "b1"} {
		if got := cut.Find(name).Layer.Block; got != block {
			t.Errorf("%s is in %s, want %s", name, got, block)
		}
	}
	for i, n := range cut.Nodes {
		if n == g.Nodes[i] || n.ID != g.Nodes[i].ID {
			t.Fatalf("%v is not a copy of %v", n, g.Nodes[i])
		}
		if n.Phase == graph.Backward && n.Of != nil && n.Layer != nil && n.Layer.Block != n.Of.Layer.Block {
			t.Errorf("%v is in %s, and differentiates what is in %s", n, n.Layer.Block, n.Of.Layer.Block)
		}
	}
	again, err := p.Apply(cut, stop.When(nil))
	if err != nil || !slices.Equal(nodes.Blocks(again), want) {
		t.Error(nodes.Blocks(again), err)
	}
	if got := p.Blocks(want); !slices.Equal(got, []string{"b0", "b1"}) || !p.Is("b0.tanh") || p.Is("b0:2") || p.Whole("b0:x") != "b0:x" {
		t.Error(got)
	}
}

// Where a graph lacks an op, what is behind it belongs to the piece before it, and the other pieces have the same names.
func TestApplyWithoutAnOp(t *testing.T) {
	n := nets.Chain(2, 4, 2, 2)
	n.Dropout, n.Stats = true, true
	p, err := Find(build(t, n), []string{"b0.add", "b0.dropout", "b0.tanh", "b1.add"})
	if err != nil {
		t.Fatal(err)
	}
	n.Dropout = false
	cut, err := p.Apply(build(t, n), stop.When(nil))
	if want := []string{"b0:1", "b0.add", "b0.tanh", "b0:3", "b1:1", "b1.add", "b1:2"}; err != nil || !slices.Equal(nodes.Blocks(cut), want) {
		t.Error(nodes.Blocks(cut), err)
	}
}

// An op whose name another block has is refused, since the name says nothing about which is meant.
func TestFindOfABlocksName(t *testing.T) {
	b := graph.NewBuilder("alike", 1)
	x := b.Input("x", shape.F32(2, 3))
	for _, name := range []string{"a", "a.neg"} {
		leave := b.In(&graph.Layer{Name: name, Block: name})
		x = ops.Neg(b, x)
		leave()
	}
	b.Output("y", x)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := Find(g, []string{"a.neg"}); err == nil || !strings.Contains(err.Error(), `"a.neg" names a block, and an op of block "a"`) {
		t.Error(p, err)
	}
	if p, err := Find(g, []string{"a"}); err != nil || len(p) > 0 || !maps.Equal(In(g, []string{"a", "y", "a.abs"}), map[string]string{"a": "a", "y": "y"}) {
		t.Error(p, err)
	}
}

// Pieces of a block are together, in their order.
func TestOrder(t *testing.T) {
	p := Pieces{{"a.add", "a"}}
	if got := p.Order([]string{"a:1", "b", "a.add", "c", "a:2"}); !slices.Equal(got, []string{"a:1", "a.add", "a:2", "b", "c"}) {
		t.Error(got)
	}
}
