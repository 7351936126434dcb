package models_test

import (
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// normed is batchnorm of images, or of features where side is 0.
func normed(momentum float64, side int) models.Spec {
	in := shape.F32(3)
	if side > 0 {
		in = shape.F32(3, side, side)
	}
	return models.Spec{Input: in, Target: shape.F32(1), Loss: "mse", Layers: models.Stack{
		models.Named{Name: "bn", Layer: models.BatchNorm{Momentum: momentum}}, models.Named{Name: "flat", Layer: models.Flatten{}}, models.Named{Name: "fc", Layer: models.Dense{Units: 1}},
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
	s.Layers[0] = models.Named{Name: "bn", Layer: models.BatchNorm{Eps: 1e-3, Momentum: 0.1}}
	alone := s
	alone.Layers, alone.Target = s.Layers[:1], s.Input
	g, err := models.Predict(alone, models.Size{Microbatch: 2})
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
	e, err := models.Eval(s, models.Size{Microbatch: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range e.Assigns {
		if a.Var.Role != graph.Metric {
			t.Errorf("eval changes %v", a.Var)
		}
	}
}
