package models_test

import (
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

func TestDropoutIsAFunctionOfSampleStepAndLayer(t *testing.T) {
	a, b := masks(t, 1, 8, 0, 0)
	var cutA, cutB []float64
	for _, m := range [][2]int{{0, 3}, {3, 3}, {6, 2}} {
		x, y := masks(t, 1, m[1], m[0], 0)
		cutA, cutB = append(cutA, x...), append(cutB, y...)
	}
	if !slices.Equal(a, cutA) || !slices.Equal(b, cutB) {
		t.Error("the mask depends on how the batch is cut")
	}
	later, _ := masks(t, 1, 8, 0, 1)
	other, _ := masks(t, 2, 8, 0, 0)
	if slices.Equal(a, later) || slices.Equal(a, other) {
		t.Error("two steps, or two seeds, have one mask")
	}
	keptA, keptB, largest := 0, 0, 0.0
	for i := range a {
		if a[i] != 0 {
			keptA++
			if b[i] != 0 {
				keptB++
				largest = max(largest, b[i])
			}
		}
	}
	if keptA < 210 || keptA > 270 { // 240 of 320 expected, ±7.7
		t.Errorf("a rate of 0.25 keeps %d of 320", keptA)
	}
	if keptB < keptA*3/8 || keptB > keptA*5/8 {
		t.Errorf("of %d that the first layer keeps, the second keeps %d, expected half", keptA, keptB)
	}
	if want := 1 / 0.75 / 0.5; math.Abs(largest-want) > 1e-12 {
		t.Errorf("what is kept is %v, expected %v", largest, want)
	}
}

func TestDropoutIsOffOutsideTraining(t *testing.T) {
	s := gpt(models.GPTOptions{Vocab: 5, Context: 3, Layers: 1, Heads: 2, Width: 4, Dropout: 0.2})
	full := train(t, s, adamW(), models.Size{Microbatch: 2, Microbatches: 1, Batch: 2})
	if n := random(t, full); n != 1+1+2 {
		t.Errorf("training drops in %d places, expected 4: embedding, attention, and twice into the residual stream", n)
	}
	e, err := models.Eval(s, models.Size{Microbatch: 2})
	if err != nil {
		t.Fatal(err)
	}
	p, err := models.Predict(s, models.Size{Microbatch: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*graph.Graph{e, p} {
		if n := random(t, g); n != 0 {
			t.Errorf("%s drops in %d places", g.Name, n)
		}
		if g.Find(models.BaseName) != nil || g.Find(models.StepName) != nil {
			t.Errorf("%s takes what only dropout reads", g.Name)
		}
	}
	s.Layers = models.GPT(models.GPTOptions{Vocab: 5, Context: 3, Layers: 1, Heads: 2, Width: 4}, at)
	if plain := train(t, s, adamW(), models.Size{Microbatch: 2, Microbatches: 1, Batch: 2}); random(t, plain) != 0 || plain.Find(models.BaseName) != nil {
		t.Error("a rate of 0 drops")
	}
}

// dropped is a model of two dropout layers over ones.
func dropped(seed uint64) models.Spec {
	return models.Spec{Input: shape.F32(40), Target: shape.F32(1), Loss: "mse", Seed: seed, Layers: models.Stack{
		models.Named{Name: "a", Layer: models.Dropout{Rate: 0.25}}, models.Named{Name: "b", Layer: models.Dropout{Rate: 0.5}}, models.Named{Name: "fc", Layer: models.Dense{Units: 1}},
	}}
}

// masks are the factors of layers a and b for samples [base, base+n). Those of b
// are 0 where those of a are.
func masks(t *testing.T, seed uint64, n, base, step int) (a, b []float64) {
	t.Helper()
	g := train(t, dropped(seed), adamW(), models.Size{Microbatch: n, Microbatches: 1, Batch: n})
	st := fresh(g, 1)
	st[models.StepName] = ref.Ints([]int32{int32(step)})
	ones := ref.New(shape.F32(n, 40))
	for i := range ones.F {
		ones.F[i] = 1
	}
	vals := st.run(t, g, state{
		models.InputName: ones, models.TargetName: ref.New(shape.F32(n, 1)), models.BaseName: ref.Ints([]int32{int32(base)}),
	}, nil)
	return vals[g.Find("a.dropout")].F, vals[g.Find("b.dropout")].F
}

// random counts the forward nodes that drop, whose streams must differ.
func random(t *testing.T, g *graph.Graph) int {
	t.Helper()
	seen := map[uint64]string{}
	for _, n := range g.Nodes {
		if n.Phase != graph.Forward {
			continue
		}
		var id uint64
		switch o := n.Op.(type) {
		case ops.Dropout:
			id = o.ID
		case ops.Attention:
			if o.P == 0 {
				continue
			}
			id = o.ID
		default:
			continue
		}
		if other := seen[id]; other != "" {
			t.Errorf("%s and %s share a stream", other, n.Layer.Name)
		}
		seen[id] = n.Layer.Name
	}
	return len(seen)
}
