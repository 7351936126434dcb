package partition

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition/nets"
)

// deepGPT is a step of a GPT with more activations than weights.
func deepGPT(t *testing.T) *graph.Graph {
	t.Helper()
	spec := models.Spec{
		Input: shape.I32(16), Target: shape.I32(16), Loss: "cross_entropy", Seed: 3,
		Layers: models.GPT(models.GPTOptions{Vocab: 7, Context: 16, Layers: 6, Heads: 2, Width: 8, Dropout: 0.1}, graph.Pos{}),
	}
	o := optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.01}}
	g, err := models.Train(spec, o, models.Size{Microbatch: 8, Microbatches: 1, Batch: 8, Ring: 4})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestRecomputeTradesMemoryForTime: each step down in memory takes more
// arithmetic, and the plan says both.
func TestRecomputeTradesMemoryForTime(t *testing.T) {
	g := deepGPT(t)
	before := g.Text()
	for _, apart := range []bool{false, true} {
		var bytes, again []int64
		for _, r := range []Recompute{"", RecomputeCheap, RecomputeBlock} {
			p := mustCut(t, g, PlanOptions{Devices: nets.Specs(1, 0), Apart: apart, Recompute: r})
			s := p.Stages[0]
			bytes = append(bytes, s.Memory[device.Activation]+s.Memory[device.Scratch])
			again = append(again, s.Recomputed)
		}
		if again[0] != 0 || again[1] == 0 || again[2] < 2*again[1] {
			t.Errorf("apart %v: operations computed again are %v", apart, again)
		}
		if 5*bytes[1] > 4*bytes[0] || 3*bytes[2] > 2*bytes[1] {
			t.Errorf("apart %v: none, cheap, block take %v bytes", apart, bytes)
		}
	}
	if g.Text() != before {
		t.Error("the graph that was given has changed")
	}
	if _, err := New(g, PlanOptions{Devices: nets.Specs(1, 0), Recompute: "some"}); !errors.Is(err, ErrGraph) {
		t.Errorf("got %v", err)
	}
}

// TestRecomputeSpares: products, the last block, and values that are kept for
// another block are not recomputed.
func TestRecomputeSpares(t *testing.T) {
	g := deepGPT(t)
	for r, never := range map[Recompute][]string{
		RecomputeCheap: {"matmul", "causal_attention", "gather", "cross_entropy", "check_finite"},
		RecomputeBlock: {"cross_entropy", "check_finite"},
	} {
		p := mustCut(t, g, PlanOptions{Devices: nets.Specs(1, 0), Recompute: r})
		seen := map[*graph.Node]bool{}
		for _, n := range p.Graph.Nodes {
			if !n.Recomputed {
				continue
			}
			if slices.Contains(never, n.Op.Kind()) || n.Layer.Block == "head" && r == RecomputeBlock {
				t.Errorf("%s: %v is computed again", r, n)
			}
			if seen[n.Of] {
				t.Errorf("%s: %v is computed a third time", r, n)
			}
			seen[n.Of] = true
		}
	}
}

func mustCut(t *testing.T, g *graph.Graph, o PlanOptions) *Plan {
	t.Helper()
	p, err := New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
