package models_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

// lossCase is a loss with keys, and the loss of a sample by PyTorch's formula.
type lossCase struct {
	loss   string
	keys   any
	target shape.Meta
	byHand func(output []float64, class int, numbers []float64) float64
	// weights are those of the classes; nil: each counts 1.
	weights []float64
}

// lossCases have every loss of this module.
func lossCases() []lossCase {
	class, numbers := shape.I32(), shape.F32(4)
	sum := func(of func(x, y float64) float64) func([]float64, int, []float64) float64 {
		return func(output []float64, _ int, numbers []float64) (s float64) {
			for i, x := range output {
				s += of(x, numbers[i])
			}
			return s
		}
	}
	// CrossEntropyLoss(label_smoothing=s): (1-s)·nll + s/C·the sum of -log p over the classes.
	smoothed := func(s float64) func([]float64, int, []float64) float64 {
		return func(output []float64, class int, _ []float64) float64 {
			p, all := softmax(output), 0.0
			for _, x := range p {
				all -= math.Log(x)
			}
			return -(1-s)*math.Log(p[class]) + s/float64(len(p))*all
		}
	}
	// CrossEntropyLoss(weight=w, label_smoothing=s), before it divides by the sum of the true classes' weights:
	// (1-s)·w of the true class·nll + s/C·the sum of -w·log p over the classes.
	weighted := func(s float64, w []float64) func([]float64, int, []float64) float64 {
		return func(output []float64, class int, _ []float64) float64 {
			p, all := softmax(output), 0.0
			for i, x := range p {
				all -= w[i] * math.Log(x)
			}
			return -(1-s)*w[class]*math.Log(p[class]) + s/float64(len(p))*all
		}
	}
	three, one := []float64{0.5, 2, 7, 1}, []float64{3, 3, 3, 0.1}
	// (1-p)^gamma·nll, as torchvision's sigmoid_focal_loss has it without alpha.
	focal := func(gamma float64) func([]float64, int, []float64) float64 {
		return func(output []float64, class int, _ []float64) float64 {
			p := softmax(output)[class]
			return -math.Pow(1-p, gamma) * math.Log(p)
		}
	}
	// HuberLoss(delta).
	huber := func(delta float64) func(x, y float64) float64 {
		return func(x, y float64) float64 {
			e := math.Abs(x - y)
			if e < delta {
				return 0.5 * e * e
			}
			return delta * (e - 0.5*delta)
		}
	}
	heavy := func(output []float64, class int, _ []float64) float64 {
		return three[class] * focal(2)(output, class, nil)
	}
	// BCEWithLogitsLoss(pos_weight=w), summed.
	ones := func(output []float64, _ int, numbers []float64) (s float64) {
		for i, x := range output {
			p := 1 / (1 + math.Exp(-x))
			s -= three[i]*numbers[i]*math.Log(p) + (1-numbers[i])*math.Log(1-p)
		}
		return s
	}
	return []lossCase{
		{loss: "bce", target: numbers, byHand: ones, weights: three},
		{loss: "cross_entropy", target: class, byHand: weighted(0, three), weights: three[:3]},
		{loss: "cross_entropy", keys: models.CrossEntropyKeys{Smoothing: 0.3}, target: class, byHand: weighted(0.3, one), weights: one},
		{loss: "focal", target: class, byHand: heavy, weights: three},
		{"cross_entropy", nil, class, smoothed(0), nil},
		{"cross_entropy", models.CrossEntropyKeys{Smoothing: 0.1}, class, smoothed(0.1), nil},
		{"cross_entropy", models.CrossEntropyKeys{Smoothing: 0.9}, class, smoothed(0.9), nil},
		{"focal", nil, class, focal(2), nil},
		{"focal", models.FocalKeys{Gamma: 0.5}, class, focal(0.5), nil},
		{"focal", models.FocalKeys{Gamma: 0}, class, focal(0), nil},
		{"mse", nil, numbers, sum(func(x, y float64) float64 { return (x - y) * (x - y) }), nil},
		{"l1", nil, numbers, sum(func(x, y float64) float64 { return math.Abs(x - y) }), nil},
		{"huber", nil, numbers, sum(huber(1)), nil},
		{"huber", models.HuberKeys{Delta: 0.3}, numbers, sum(huber(0.3)), nil},
		{"bce", nil, numbers, sum(func(x, y float64) float64 {
			p := 1 / (1 + math.Exp(-x))
			return -y*math.Log(p) - (1-y)*math.Log(1-p)
		}), nil},
	}
}

// Each loss has the values of its formula, and gradients that agree with differences.
func TestLossesAgreeWithTheirFormulas(t *testing.T) {
	const samples, features, outputs = 5, 3, 4
	seen := map[string]bool{}
	for _, c := range lossCases() {
		seen[c.loss] = true
		s := models.Spec{Input: shape.F32(features), Target: c.target, Loss: c.loss, LossKeys: c.keys, ClassWeights: c.weights,
			Layers: models.Stack{models.Named{Name: "it", Layer: models.Dense{Units: outputs, NoBias: true, Std: 1}}}}
		g := train(t, s, adamW(), models.Size{Microbatch: samples, Microbatches: 1, Batch: samples})
		st := state{}
		for name, a := range fresh(g, 1) {
			st[name] = a
		}
		w := noise(4, st["it.weight"].Meta)
		st["it.weight"] = w
		target := noise(2, batch(samples, c.target))
		for i, y := range target.F { // from 0 to 1, for bce
			target.F[i] = 1 / (1 + math.Exp(-y))
		}
		for i := range target.I {
			target.I[i] %= outputs
		}
		in := state{models.InputName: noise(3, batch(samples, s.Input)), models.TargetName: target}
		lossNow := func() float64 { return st.run(t, g, in, nil)[find(t, g, "check_finite").Out[0]].F[0] }
		agree(t, c.loss, []float64{lossNow()}, 1, []float64{byHand(c, in[models.InputName], w, target)}, 1e-11) // focal adds 1e-12 to 1-p

		got := st.run(t, g, in, nil)[gradients(g)["it.weight"]].F
		want := make([]float64, len(w.F))
		for i, x := range w.F {
			const h = 1e-6
			w.F[i] = x + h
			above := lossNow()
			w.F[i] = x - h
			want[i] = (above - lossNow()) / (2 * h)
			w.F[i] = x
		}
		agree(t, "the gradient of "+c.loss, got, 1, want, 1e-6)
	}
	for _, e := range registry.List(registry.Loss) {
		if e.Version == 0 && !seen[e.Name] {
			t.Errorf("no case for loss %s", e.Name)
		}
	}
}

// byHand is the loss of a batch, whose output is x·wᵀ.
func byHand(c lossCase, x, w, target ref.Array) (sum float64) {
	features, outputs := x.Meta.Shape[1], w.Meta.Shape[0]
	for i := range x.Meta.Shape[0] {
		output := make([]float64, outputs)
		for j := range outputs {
			for k := range features {
				output[j] += x.F[i*features+k] * w.F[j*features+k]
			}
		}
		if target.I != nil {
			sum += c.byHand(output, int(target.I[i]), nil)
		} else {
			sum += c.byHand(output, 0, target.F[i*outputs:(i+1)*outputs])
		}
	}
	return sum
}

// Evaluations are without smoothing, so that perplexity and losses of runs can be compared.
func TestEvaluationsAreNotSmoothed(t *testing.T) {
	s := models.Spec{Input: shape.F32(2), Target: shape.I32(), Loss: "cross_entropy", Layers: models.Stack{models.Named{Name: "it", Layer: models.Dense{Units: 2}}}}
	in := state{models.InputName: noise(1, shape.F32(1, 2)), models.TargetName: ref.Ints([]int32{1}, 1)}
	var losses []float64
	for _, smoothing := range []float64{0, 0.5} {
		s.LossKeys = models.CrossEntropyKeys{Smoothing: smoothing}
		g, err := models.Eval(s, models.Size{Microbatch: 1})
		if err != nil {
			t.Fatal(err)
		}
		st := fresh(g, 1)
		st.step(t, g, in)
		losses = append(losses, st[models.EvalLoss].F[0])
	}
	if losses[0] != losses[1] {
		t.Errorf("losses %v", losses)
	}
}

// An answer that is certain and right has no focal loss, and one that is certain and wrong has
// a gradient: neither is NaN.
func TestFocalLossOfCertainAnswers(t *testing.T) {
	s := models.Spec{Input: shape.F32(2), Target: shape.I32(), Loss: "focal", Layers: models.Stack{models.Named{Name: "it", Layer: models.Dense{Units: 2, NoBias: true}}}}
	g := train(t, s, adamW(), models.Size{Microbatch: 1, Microbatches: 1, Batch: 1})
	st := fresh(g, 1)
	copy(st["it.weight"].F, []float64{500, 0, 0, 500})
	for class, want := range []float64{0, 500} {
		in := state{models.InputName: ref.Floats([]float64{1, 0}, 1, 2), models.TargetName: ref.Ints([]int32{int32(class)}, 1)}
		vals := st.run(t, g, in, nil)
		if got := vals[find(t, g, "check_finite").Out[0]].F[0]; !(math.Abs(got-want) < 1e-8) {
			t.Errorf("class %d: the loss is %v, want %v", class, got, want)
		}
		for i, got := range vals[gradients(g)["it.weight"]].F {
			if want := float64(class) * []float64{1, 0, -1, 0}[i]; !(math.Abs(got-want) < 1e-8) {
				t.Errorf("class %d: gradient %d is %v, want %v", class, i, got, want)
			}
		}
	}
}

// Keys out of range are refused by name.
func TestLossKeysHaveBounds(t *testing.T) {
	for want, s := range map[string]models.Spec{
		"label_smoothing is 1: give it a number of at least 0 and below 1": {Loss: "cross_entropy", LossKeys: models.CrossEntropyKeys{Smoothing: 1}, Target: shape.I32()},
		"delta is -1: give it a number above 0":                            {Loss: "huber", LossKeys: models.HuberKeys{Delta: -1}, Target: shape.F32(2)},
		"gamma is -1: give it a number of at least 0":                      {Loss: "focal", LossKeys: models.FocalKeys{Gamma: -1}, Target: shape.I32()},
	} {
		s.Input, s.Layers = shape.F32(2), models.Stack{models.Dense{Units: 2}}
		if _, err := models.Eval(s, models.Size{Microbatch: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Targets with a share of each class give the sum of -share·log p, smoothed or not, and its gradient; answers are right that
// name the class with the largest share.
func TestSharesOfClasses(t *testing.T) {
	const samples, features, outputs = 5, 3, 4
	for _, smoothing := range []float64{0, 0.3} {
		c := lossCase{byHand: func(output []float64, _ int, shares []float64) (sum float64) {
			for i, p := range softmax(output) {
				sum -= ((1-smoothing)*shares[i] + smoothing/outputs) * math.Log(p)
			}
			return sum
		}}
		s := models.Spec{Input: shape.F32(features), Target: shape.I32(), Classes: outputs, Soft: true, Loss: "cross_entropy", LossKeys: models.CrossEntropyKeys{Smoothing: smoothing},
			Layers: models.Stack{models.Named{Name: "it", Layer: models.Dense{Units: outputs, NoBias: true, Std: 1}}}}
		g := train(t, s, adamW(), models.Size{Microbatch: samples, Microbatches: 1, Batch: samples})
		st := state{}
		for name, a := range fresh(g, 1) {
			st[name] = a
		}
		w := noise(4, st["it.weight"].Meta)
		st["it.weight"] = w
		target := noise(2, batch(samples, shape.F32(outputs)))
		for i := range samples {
			copy(target.F[i*outputs:], softmax(target.F[i*outputs:(i+1)*outputs]))
		}
		in := state{models.InputName: noise(3, batch(samples, s.Input)), models.TargetName: target}
		lossNow := func() float64 { return st.run(t, g, in, nil)[find(t, g, "check_finite").Out[0]].F[0] }
		agree(t, "the loss of shares", []float64{lossNow()}, 1, []float64{byHand(c, in[models.InputName], w, target)}, 1e-11)
		got := st.run(t, g, in, nil)[gradients(g)["it.weight"]].F
		want := make([]float64, len(w.F))
		for i, x := range w.F {
			const h = 1e-6
			w.F[i] = x + h
			above := lossNow()
			w.F[i] = x - h
			want[i] = (above - lossNow()) / (2 * h)
			w.F[i] = x
		}
		agree(t, "the gradient of shares", got, 1, want, 1e-6)
		if _, err := models.Eval(s, models.Size{Microbatch: samples}); err != nil {
			t.Errorf("evaluation takes classes as before: %v", err)
		}
	}
	for want, s := range map[string]models.Spec{
		"need the loss cross_entropy without class_weights":                                                                           {Loss: "focal", Classes: 2},
		"the model tells 2 classes apart, and targets with a share of each class, as of mixup, have 1: give its last layer 1 outputs": {Loss: "cross_entropy", Classes: 1},
	} {
		s.Input, s.Target, s.Soft, s.Layers = shape.F32(2), shape.I32(), true, models.Stack{models.Dense{Units: 2}}
		if _, err := models.Eval(s, models.Size{Microbatch: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Of targets with equal shares of two classes, as of mixup, an answer counts once. One that finds several classes likeliest
// alike is right only if all of them have the largest share.
func TestSharesThatAreEqual(t *testing.T) {
	s := models.Spec{Input: shape.F32(3), Target: shape.I32(), Classes: 3, Soft: true, Loss: "cross_entropy",
		Layers: models.Stack{models.Named{Name: "it", Layer: models.Dense{Units: 3, NoBias: true}}}}
	halves := []float64{0.5, 0.5, 0}
	for _, x := range []struct {
		logits, shares []float64
		want           float64
	}{
		{[]float64{1, 1, 0}, halves, 1},
		{[]float64{2, 1, 0}, halves, 1},
		{[]float64{0, 1, 2}, halves, 0},
		{[]float64{0, 0, 0}, halves, 0},
		{[]float64{0, 1, 1}, halves, 0},
		{[]float64{0, 0, 0}, []float64{0, 0.75, 0.25}, 0},
		{[]float64{0, 1, 0}, []float64{0, 0.75, 0.25}, 1},
	} {
		g := train(t, s, adamW(), models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Ring: 1})
		st := fresh(g, 1)
		copy(st["it.weight"].F, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1})
		target := noise(1, batch(2, shape.F32(3)))
		copy(target.F, append(slices.Clone(x.shares), 0, 0, 1)) // the second sample is wrong
		in := noise(1, batch(2, s.Input))
		copy(in.F, append(slices.Clone(x.logits), 1, 0, 0))
		st.step(t, g, state{models.InputName: in, models.TargetName: target, models.BaseName: ref.Ints([]int32{0})})
		agree(t, fmt.Sprint("the accuracy of ", x.logits, x.shares), st[models.CorrectRing].F, 1, []float64{x.want / 2}, 1e-6)
	}
}
