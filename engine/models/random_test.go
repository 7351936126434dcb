package models_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// normed is batchnorm of images, or of features where side is 0.
func normed(momentum float64, side int) models.Spec {
	in := shape.F32(3)
	if side > 0 {
		in = shape.F32(3, side, side)
	}
	return models.Spec{Input: in, Target: shape.F32(1), Loss: "mse", Layers: []models.Layer{
		{Type: "batchnorm", Name: "bn", Momentum: momentum}, {Type: "flatten", Name: "flat"}, {Type: "dense", Name: "fc", Units: 1},
	}}
}

// statistics are PyTorch's of one channel of x [B,3,…]: mean and unbiased
// variance.
func statistics(x ref.Array, ch int) (mean, variance float64) {
	var vals []float64
	inner := x.Meta.Shape[2:].Elems()
	for i, v := range x.F {
		if i/inner%3 == ch {
			vals = append(vals, v)
		}
	}
	mean, std, _ := moments(vals)
	return mean, std * std * float64(len(vals)) / float64(len(vals)-1)
}

func TestRunningStatisticsMoveAsPyTorchs(t *testing.T) {
	for _, c := range []struct {
		momentum float64
		side     int
	}{{0, 0}, {0.1, 2}, {0.3, 2}, {1, 0}} {
		s := normed(c.momentum, c.side)
		momentum := c.momentum
		if momentum == 0 {
			momentum = 0.1
		}
		g := train(t, s, adamW(), models.Size{Microbatch: 5, Microbatches: 1, Batch: 5})
		st := fresh(g, 1)
		means, variances := make([]float64, 3), []float64{1, 1, 1}
		for step := range uint64(3) {
			x := noise(step, batch(5, s.Input))
			st.step(t, g, state{models.InputName: x, models.TargetName: noise(9, shape.F32(5, 1))})
			for ch := range 3 {
				m, v := statistics(x, ch)
				means[ch] = (1-momentum)*means[ch] + momentum*m
				variances[ch] = (1-momentum)*variances[ch] + momentum*v
			}
			agree(t, "running mean", st["bn.running_mean"].F, 1, means, 1e-12)
			agree(t, "running variance", st["bn.running_var"].F, 1, variances, 1e-12)
		}
	}
}

// TestRunningStatisticsOfMicrobatches: each weighs by its samples.
func TestRunningStatisticsOfMicrobatches(t *testing.T) {
	s := normed(0.1, 2)
	full := train(t, s, adamW(), models.Size{Microbatch: 4, Microbatches: 2, Batch: 8})
	tail := train(t, s, adamW(), models.Size{Microbatch: 1, Microbatches: 2, Batch: 5})
	st := fresh(full, 1)
	x := noise(1, batch(5, s.Input))
	cut(t, st, full, tail, state{models.InputName: x, models.TargetName: noise(2, shape.F32(5, 1))}, []int{4, 1})
	for ch := range 3 {
		m4, v4 := statistics(rows(x, 0, 4), ch)
		m1, v1 := statistics(rows(x, 4, 5), ch)
		agree(t, "running mean", st["bn.running_mean"].F[ch:ch+1], 1, []float64{0.1 * (4*m4 + m1) / 5}, 1e-12)
		agree(t, "running variance", st["bn.running_var"].F[ch:ch+1], 1, []float64{0.9 + 0.1*(4*v4+v1)/5}, 1e-12)
	}
}

func TestEvalNormalisesByRunningStatistics(t *testing.T) {
	s := normed(0.1, 0)
	s.Layers[0].Eps = 1e-3
	alone := s
	alone.Layers, alone.Target = s.Layers[:1], s.Input
	g, err := models.Predict(alone, 2)
	if err != nil {
		t.Fatal(err)
	}
	x := noise(1, shape.F32(2, 3))
	st := state{
		"bn.weight": noise(2, shape.F32(3)), "bn.bias": noise(3, shape.F32(3)),
		"bn.running_mean": noise(4, shape.F32(3)), "bn.running_var": ref.Floats([]float64{0.5, 2, 3}, 3),
	}
	got := st.run(t, g, state{models.InputName: x}, nil)[g.Outputs[0]]
	want := make([]float64, 6)
	for i, v := range x.F {
		c := i % 3
		want[i] = (v-st["bn.running_mean"].F[c])/math.Sqrt(st["bn.running_var"].F[c]+1e-3)*st["bn.weight"].F[c] + st["bn.bias"].F[c]
	}
	agree(t, "eval of batchnorm", got.F, 1, want, 1e-12)
	e, err := models.Eval(s, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range e.Assigns {
		if a.Var.Role != graph.Metric {
			t.Errorf("eval changes %v", a.Var)
		}
	}
}

// dropped is a model of two dropout layers over ones.
func dropped(seed uint64) models.Spec {
	return models.Spec{Input: shape.F32(40), Target: shape.F32(1), Loss: "mse", Seed: seed, Layers: []models.Layer{
		{Type: "dropout", Name: "a", Rate: 0.25}, {Type: "dropout", Name: "b", Rate: 0.5}, {Type: "dense", Name: "fc", Units: 1},
	}}
}

// masks are what layers a and b multiply samples [base, base+n) by; that of b
// is 0 where a's is.
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
	e, err := models.Eval(s, 2)
	if err != nil {
		t.Fatal(err)
	}
	p, err := models.Predict(s, 2)
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
		case ops.CausalSelfAttention:
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

func TestFillRefusesAnotherSize(t *testing.T) {
	defer func() {
		if msg, _ := recover().(string); !strings.HasPrefix(msg, "BUG: ") {
			t.Errorf("got panic %q", msg)
		}
	}()
	models.Fill(&graph.Value{Name: "w", Meta: shape.F32(3)}, 1, make([]byte, 8))
}
