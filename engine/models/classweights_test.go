package models_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

// The loss of a step is a mean weighted by the true classes, as that of PyTorch's
// CrossEntropyLoss(weight): for logits (1,0), (0,2), (0,0) of the classes 0, 0, 1 and the weights
// 1 and 4 it is (1·0.313262 + 1·2.126928 + 4·0.693147)/(1+1+4) = 0.868796. So is the gradient,
// however the batch is cut; the accuracy counts each sample once.
func TestWeightedMean(t *testing.T) {
	s := models.Spec{Input: shape.F32(2), Target: shape.I32(), Loss: "cross_entropy", ClassWeights: []float64{1, 4},
		Layers: models.Stack{models.Named{Name: "it", Layer: models.Dense{Units: 2, NoBias: true}}}}
	logits, classes := []float64{1, 0, 0, 2, 0, 0}, []int32{0, 0, 1}
	var weights [][]float64
	for _, cut := range []models.Size{{Microbatch: 3, Microbatches: 1, Batch: 3, Ring: 1}, {Microbatch: 1, Microbatches: 3, Batch: 3, Ring: 1}} {
		o := adamW()
		o.GradNorm = true
		g := train(t, s, o, cut)
		st := fresh(g, 1)
		copy(st["it.weight"].F, []float64{1, 0, 0, 1})
		st.stepOver(t, g, cut, logits, classes)
		agree(t, fmt.Sprint("the loss of ", cut.Microbatches), st[models.LossRing].F, 1, []float64{0.868796}, 1e-6)
		agree(t, "the accuracy", st[models.CorrectRing].F, 1, []float64{1. / 3}, 1e-6)
		// The gradient of w[i] is the weighted mean of (p[i] - [i is the class])·x: (0.268941·(-1,1)⊗(1,0) + 0.880797·(-1,1)⊗(0,2) +
		// 0)/6.
		agree(t, "the norm of the gradient", st[models.GradNormRing].F, 1, []float64{0.4200227}, 1e-6)
		weights = append(weights, st["it.weight"].F)
	}
	agree(t, "the weights of a batch in pieces", weights[1], 1, weights[0], 1e-12)
}

func init() {
	size := func(b *models.Builder, _ struct{}, _, target *graph.Value) *graph.Value {
		return ops.Abs(b.Builder, target)
	}
	of := func(loss *graph.Value, b *models.Builder) *graph.Value {
		return ops.SumToShape(b.Builder, loss, shape.Of())
	}
	models.RegisterLoss(models.LossType[struct{}]{Name: "by_size", Version: 1,
		Loss: func(b *models.Builder, k struct{}, output, target *graph.Value) *graph.Value {
			return of(ops.Mul(b.Builder, size(b, k, output, target), ops.Square(b.Builder, ops.Sub(b.Builder, output, target))), b)
		},
		Weight: func(b *models.Builder, k struct{}, output, target *graph.Value) *graph.Value {
			return of(size(b, k, output, target), b)
		}})
	models.RegisterLoss(models.LossType[struct{}]{Name: "by_each_size", Version: 1,
		Loss: func(b *models.Builder, k struct{}, output, target *graph.Value) *graph.Value {
			return of(size(b, k, output, target), b)
		},
		Weight: size})
}

// A program's loss divides by the weights of its targets: ((2·(1-2)² + 6·(0-6)²)/(2+6) is 27.25.
func TestWeightsOfTargets(t *testing.T) {
	s := models.Spec{Input: shape.F32(1), Target: shape.F32(1), Loss: "by_size", Layers: models.Stack{models.Named{Name: "it", Layer: models.Dense{Units: 1, NoBias: true}}}}
	z := models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Ring: 1}
	g := train(t, s, adamW(), z)
	st := fresh(g, 1)
	st["it.weight"].F[0] = 1
	st.step(t, g, state{models.InputName: ref.Floats([]float64{1, 0}, 2, 1), models.TargetName: ref.Floats([]float64{2, -6}, 2, 1)})
	agree(t, "the loss", st[models.LossRing].F, 1, []float64{27.25}, 1e-12)
	s.Loss = "by_each_size"
	if _, err := models.Train(s, adamW(), z); err == nil || !strings.Contains(err.Error(), "its Weight gives") {
		t.Error(err)
	}
}

// stepOver is a step on inputs f32[2] and classes, in microbatches of a size.
func (st state) stepOver(t *testing.T, g *graph.Graph, z models.Size, inputs []float64, classes []int32) {
	t.Helper()
	sums := map[*graph.Value]ref.Array{}
	for _, a := range g.Accums {
		sums[a.Sum] = ref.New(a.Part.Meta)
	}
	run := func(i int) map[*graph.Value]ref.Array {
		from, to := i*z.Microbatch, (i+1)*z.Microbatch
		return st.run(t, g, state{models.InputName: ref.Floats(inputs[2*from:2*to], z.Microbatch, 2), models.TargetName: ref.Ints(classes[from:to], z.Microbatch)}, sums)
	}
	var parts []map[*graph.Value]ref.Array
	for i := range z.Microbatches {
		parts = append(parts, run(i))
	}
	for _, a := range g.Accums {
		for _, part := range parts {
			for j, x := range part[a.Part].F {
				sums[a.Sum].F[j] += x
			}
		}
	}
	st.assign(g, run(0))
}

// Weights that are not known, or no weights, are refused.
func TestWeightsAreRefused(t *testing.T) {
	keys := models.CrossEntropyKeys{ClassWeightKeys: models.ClassWeightKeys{ClassWeights: registry.Weights{Word: "balanced"}}}
	for want, s := range map[string]models.Spec{
		"give them as numbers, in Spec.ClassWeights": {LossKeys: keys},
		"weight 1 of Spec.ClassWeights is 0":         {ClassWeights: []float64{1, 0}},
		"use balanced, or give each name a number of at least 1e-06 and at most 1e+06": {LossKeys: models.CrossEntropyKeys{ClassWeightKeys: models.ClassWeightKeys{
			ClassWeights: registry.Weights{ByName: map[string]float64{"a": -1}}}}},
	} {
		s.Input, s.Target, s.Loss, s.Layers = shape.F32(2), shape.I32(), "cross_entropy", models.Stack{models.Dense{Units: 2}}
		if _, err := models.Train(s, adamW(), models.Size{Microbatch: 1, Microbatches: 1, Batch: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Evaluations weigh all classes alike, so that losses of runs can be compared.
func TestEvaluationsAreNotWeighted(t *testing.T) {
	s := models.Spec{Input: shape.F32(2), Target: shape.I32(), Loss: "cross_entropy", Layers: models.Stack{models.Dense{Units: 2}}}
	for _, loss := range []string{"cross_entropy", "focal"} {
		s.Loss = loss
		var prints []string
		for _, weights := range [][]float64{nil, {5, 1}} {
			s.ClassWeights = weights
			g, err := models.Eval(s, models.Size{Microbatch: 2})
			if err != nil {
				t.Fatal(err)
			}
			prints = append(prints, graph.Signature(g))
		}
		if prints[0] != prints[1] {
			t.Errorf("%s: another graph of an evaluation", loss)
		}
	}
}
