package recompute_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/recompute"
)

// TestSpares: products, the last block, and values that are kept for
// another block are not recomputed.
func TestSpares(t *testing.T) {
	g, err := nets.DeepGPT()
	if err != nil {
		t.Fatal(err)
	}
	for r, never := range map[recompute.Kind][]string{
		recompute.Cheap: {"matmul", "attention", "gather", "cross_entropy", "check_finite"},
		recompute.Block: {"cross_entropy", "check_finite"},
	} {
		h, err := r.Apply(g, stop.When(nil))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[*graph.Node]bool{}
		for _, n := range h.Nodes {
			if !n.Recomputed {
				continue
			}
			if slices.Contains(never, n.Op.Kind()) || n.Layer.Block == "head" && r == recompute.Block {
				t.Errorf("%s: %v is computed again", r, n)
			}
			if seen[n.Of] {
				t.Errorf("%s: %v is computed a third time", r, n)
			}
			seen[n.Of] = true
		}
		if len(seen) == 0 {
			t.Errorf("%s: nothing is computed again", r)
		}
	}
}

// TestForwardLetsGo checks what the pass promises about random graphs. The nodes that there were
// are there still, in their order. Those that are new compute the same ops in the backward pass,
// and no node there that differentiates the same block reads the first result any more.
func TestForwardLetsGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := passes.Build(t, nets.Draw(t))
		before := g.Text()
		kind := rapid.SampledFrom([]recompute.Kind{"", recompute.None, recompute.Cheap, recompute.Block}).Draw(t, "kind")
		h, err := kind.Apply(g, stop.When(nil))
		if err != nil {
			t.Fatal(err)
		}
		if g.Text() != before {
			t.Fatal("the graph that was given has changed")
		}
		if (kind == "" || kind == recompute.None) && h != g {
			t.Fatal("none gives another graph")
		}
		var old []int
		for _, n := range h.Nodes {
			if !n.Recomputed {
				old = append(old, n.ID)
				continue
			}
			if n.Phase != graph.Backward || n.Of == nil || n.Of.Phase != graph.Forward || n.Op.Kind() != n.Of.Op.Kind() {
				t.Fatalf("%v computes %v again", n, n.Of)
			}
			for _, r := range h.Nodes {
				own := r.Phase == graph.Backward && r.Of != nil && nodes.BlockOf(r.Of.Layer) == nodes.BlockOf(n.Layer)
				for _, v := range n.Of.Out {
					if own && slices.Contains(r.In, v) {
						t.Fatalf("%v reads %s, which %v computes again", r, v.Name, n)
					}
				}
			}
		}
		for i, n := range g.Nodes {
			if i >= len(old) || old[i] != n.ID {
				t.Fatalf("the nodes %v became %v", g.Nodes, h.Nodes)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	g := passes.Build(t, nets.Chain(2, 4, 2, 1))
	if _, err := recompute.Kind("some").Apply(g, stop.When(nil)); !errors.Is(err, nodes.ErrGraph) {
		t.Errorf("an unknown kind: %v", err)
	}
	stopped := errors.New("stopped")
	for _, kind := range []recompute.Kind{recompute.Cheap, recompute.Block} {
		if _, err := kind.Apply(g, stop.When(func() error { return stopped })); !errors.Is(err, stopped) {
			t.Errorf("%s, stopped: %v", kind, err)
		}
	}
}
