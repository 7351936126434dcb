package parts_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/parts"
)

// step is a training step of a small model of pictures.
func step(t testing.TB, batch int) *graph.Graph {
	t.Helper()
	g, err := models.Train(
		models.Spec{Input: shape.F32(2, 8, 8), Target: shape.I32(), Loss: "cross_entropy", Layers: models.CNN([]int{5, 6}, 3, []int{7}, "relu", 3, graph.Pos{})},
		optim.Spec{Name: "adam", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}},
		models.Size{Microbatch: batch, Microbatches: 1, Batch: batch, Ring: 2})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// normed is a training step of a model with batch norms, of pictures and of rows.
func normed(t testing.TB, batch int) *graph.Graph {
	t.Helper()
	norm := func(name string) models.Layer {
		return models.Named{Name: name, Layer: models.BatchNorm{Eps: 1e-5, Momentum: 0.1}}
	}
	layers := []models.Layer(models.CNN([]int{5, 6}, 3, []int{20}, "relu", 3, graph.Pos{}))
	layers = slices.Insert(layers, len(layers)-1, norm("bn2"))
	layers = slices.Insert(layers, 1, norm("bn1"))
	g, err := models.Train(
		models.Spec{Input: shape.F32(2, 8, 8), Target: shape.I32(), Loss: "cross_entropy", Layers: layers},
		optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}},
		models.Size{Microbatch: batch, Microbatches: 1, Batch: batch, Ring: 2})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// texts is a training step of a small GPT.
func texts(t testing.TB, batch int) *graph.Graph {
	t.Helper()
	g, err := models.Train(
		models.Spec{
			Input: shape.I32(5), Target: shape.I32(5), Loss: "cross_entropy",
			Layers: models.GPT(models.GPTOptions{Vocab: 3, Context: 5, Layers: 1, Heads: 2, Width: 6}, graph.Pos{}),
		},
		optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}},
		models.Size{Microbatch: batch, Microbatches: 1, Batch: batch, Ring: 2})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func noScratch(*graph.Node) int64 { return 0 }

// eval computes a graph from numbers that its inputs and variables have by their names.
func eval(t interface{ Fatal(...any) }, g *graph.Graph) map[*graph.Value]ref.Array {
	feed := map[*graph.Value]ref.Array{}
	for i, v := range append(slices.Clone(g.Inputs), g.Vars...) {
		a, random := ref.New(v.Meta), rand.New(rand.NewPCG(1, uint64(i)))
		for k := range a.F {
			a.F[k] = random.Float64()
		}
		for k := range a.I {
			a.I[k] = int32(k % 3)
		}
		feed[v] = a
	}
	got, err := ref.Eval(g, feed)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A step in parts assigns and gives the same numbers, and no node of it that was cut takes more
// than its part.
func TestPartsComputeTheSame(t *testing.T) {
	for name, whole := range map[string]*graph.Graph{"pictures": step(t, 6), "texts": texts(t, 6), "norms": normed(t, 6)} {
		t.Run(name, func(t *testing.T) { computesTheSame(t, whole) })
	}
}

func computesTheSame(t *testing.T, whole *graph.Graph) {
	before := whole.Text()
	rapid.Check(t, func(t *rapid.T) {
		limit := int64(rapid.IntRange(1, 60_000).Draw(t, "limit"))
		c := parts.Choose(whole, limit, rapid.IntRange(2, 7).Draw(t, "parts"), noScratch, stop.When(nil))
		g := c.Apply(whole, stop.When(nil))
		if !c.On() {
			if g != whole {
				t.Fatal("nothing is cut, and the graph is another one")
			}
			return
		}
		want, got := eval(t, whole), eval(t, g)
		for i, a := range whole.Assigns {
			if b := g.Assigns[i]; b.Var != a.Var || !slices.Equal(got[b.New].F, want[a.New].F) || !slices.Equal(got[b.New].I, want[a.New].I) {
				t.Fatalf("%s becomes %v, want %v", a.Var.Name, got[b.New], want[a.New])
			}
		}
		for i, v := range whole.Outputs {
			if !slices.Equal(got[g.Outputs[i]].F, want[v].F) {
				t.Fatalf("%s is %v, want %v", v.Name, got[g.Outputs[i]], want[v])
			}
		}
		for _, n := range g.Nodes {
			bytes := int64(0)
			for _, v := range append(slices.Clone(n.In), n.Out...) {
				bytes += v.Meta.Bytes()
			}
			if n.Whole() != n && bytes > 2*c.Least {
				t.Fatalf("%v takes %d bytes, the most of a part is %d", n, bytes, c.Least)
			}
		}
		if _, err := nodes.New(g, nodes.Options{Microbatches: 1}, stop.When(nil)); err != nil {
			t.Fatal(err)
		}
	})
	if whole.Text() != before {
		t.Error("the graph that was given has changed")
	}
}

// The nodes, names and order of parts do not depend on the number of samples, of which there
// may be fewer than parts.
func TestSmallerBatchHasTheSameParts(t *testing.T) {
	for name, build := range map[string]func(t testing.TB, batch int) *graph.Graph{"pictures": step, "texts": texts, "norms": normed} {
		t.Run(name, func(t *testing.T) { sameParts(t, build) })
	}
}

func sameParts(t *testing.T, build func(t testing.TB, batch int) *graph.Graph) {
	whole := build(t, 8)
	c := parts.Choose(whole, 1, 8, noScratch, stop.When(nil))
	names := func(g *graph.Graph) (list []string) {
		for _, n := range c.Apply(g, stop.When(nil)).Nodes {
			text := fmt.Sprint(n.ID, n.Op.Kind())
			for _, v := range slices.Concat(n.In, n.Out) {
				text += " " + v.Name
			}
			list = append(list, text)
		}
		return list
	}
	want := names(whole)
	if len(want) < 2*len(whole.Nodes) {
		t.Fatalf("%d nodes in parts of %d", len(want), len(whole.Nodes))
	}
	for _, batch := range []int{1, 3, 5} {
		if got := names(build(t, batch)); !slices.Equal(got, want) {
			t.Errorf("a batch of %d has other nodes: %d, want %d", batch, len(got), len(want))
		}
	}
}

// A graph of other nodes, of which some have the IDs of nodes that are cut, computes what it computed.
func TestOtherNodesKeepTheirNumbers(t *testing.T) {
	c := parts.Choose(step(t, 6), 1, 4, noScratch, stop.When(nil))
	g, err := models.Train(
		models.Spec{Input: shape.F32(2, 8, 8), Target: shape.I32(), Loss: "cross_entropy", Layers: models.CNN([]int{3}, 3, []int{4, 5}, "tanh", 3, graph.Pos{})},
		optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}},
		models.Size{Microbatch: 6, Microbatches: 1, Batch: 6, Ring: 2})
	if err != nil {
		t.Fatal(err)
	}
	x := c.Apply(g, stop.When(nil))
	want, got := eval(t, g), eval(t, x)
	for i, a := range g.Assigns {
		if !slices.Equal(got[x.Assigns[i].New].F, want[a.New].F) {
			t.Errorf("%s becomes %v, want %v", a.Var.Name, got[x.Assigns[i].New], want[a.New])
		}
	}
}

// Nothing is cut where it fits.
func TestWhatFitsStaysWhole(t *testing.T) {
	if c := parts.Choose(step(t, 6), 1<<30, 2, noScratch, stop.When(nil)); c.On() {
		t.Errorf("cut: %+v", c)
	}
	// Working memory counts, but only a limit below all of it is a reason.
	much := func(n *graph.Node) int64 {
		if n.Op.Kind() == "conv2d_grad_w" {
			return 1 << 29
		}
		return 0
	}
	for limit, want := range map[int64]bool{1 << 30: false, 1 << 28: true} {
		if c := parts.Choose(step(t, 6), limit, 2, much, stop.When(nil)); c.On() != want {
			t.Errorf("within %d bytes: %+v", limit, c)
		}
	}
}
