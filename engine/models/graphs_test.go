package models_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
)

// small are models in which samples do not depend on each other.
func small() map[string]models.Spec {
	return map[string]models.Spec{
		"mlp": {Input: shape.F32(6), Target: shape.F32(2), Loss: "mse", Layers: models.MLP([]int{5}, "gelu", 2, at)},
		"bce": {Input: shape.F32(6), Target: shape.F32(2), Loss: "bce", Layers: models.MLP([]int{5}, "tanh", 2, at)},
		"cnn": {
			Input: shape.F32(2, 4, 4), Target: shape.I32(), Loss: "cross_entropy",
			Layers: models.CNN([]int{3}, 3, []int{7}, "silu", 5, at),
		},
		"gpt": gpt(models.GPTOptions{Vocab: 5, Context: 3, Layers: 2, Heads: 2, Width: 4, Dropout: 0.2}),
	}
}

// cut computes a step in microbatches of the given sizes: the last by the graph
// tail, which has the update, the others by the graph full.
func cut(t *testing.T, st state, full, tail *graph.Graph, in state, sizes []int) {
	t.Helper()
	sums := make([]ref.Array, len(tail.Accums))
	from := 0
	for i, m := range sizes {
		g := full
		if i == len(sizes)-1 {
			g = tail
		}
		part := state{models.BaseName: ref.Ints([]int32{int32(from)})}
		for name, a := range in {
			part[name] = rows(a, from, from+m)
		}
		vals := st.run(t, g, part, nil)
		for k, a := range g.Accums {
			p := vals[a.Part]
			if i == 0 {
				sums[k] = ref.New(p.Meta)
			}
			for j, x := range p.F {
				sums[k].F[j] += x
			}
		}
		from += m
		if i < len(sizes)-1 {
			continue
		}
		feed := map[*graph.Value]ref.Array{}
		for k, a := range tail.Accums {
			feed[a.Sum] = sums[k]
		}
		st.assign(tail, st.run(t, tail, part, feed))
	}
}

func TestMicrobatchesDoNotChangeTheStep(t *testing.T) {
	o := adamW()
	o.ClipNorm, o.NoDecay, o.Schedule.Base = 0.1, []string{"bias", "norm"}, 0.01
	for name, s := range small() {
		for _, c := range []struct{ size, batch int }{{2, 8}, {2, 7}, {1, 4}} {
			t.Run(fmt.Sprintf("%s/%d of %d", name, c.batch, c.size), func(t *testing.T) {
				in := state{models.InputName: noise(1, batch(c.batch, s.Input)), models.TargetName: noise(2, batch(c.batch, s.Target))}
				whole := train(t, s, o, models.Size{Microbatch: c.batch, Microbatches: 1, Batch: c.batch, Ring: 3})
				full := train(t, s, o, models.Size{Microbatch: c.size, Microbatches: 4, Batch: 4 * c.size, Ring: 3})
				sizes := []int{c.size, c.size, c.size, c.batch - 3*c.size}
				tail := train(t, s, o, models.Size{Microbatch: sizes[3], Microbatches: 4, Batch: c.batch, Ring: 3})
				a, b := fresh(whole, 1), fresh(whole, 1)
				for range 3 {
					all := state{models.BaseName: ref.Ints([]int32{0})}
					for k, v := range in {
						all[k] = ref.Array{Meta: v.Meta, F: v.F, I: v.I}
					}
					a.step(t, whole, all)
					cut(t, b, full, tail, in, sizes)
				}
				compare(t, b, a)
			})
		}
	}
}

// compare wants the same variables, to 1e-6 of the largest element.
func compare(t *testing.T, got, want state) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d variables, expected %d", len(got), len(want))
	}
	for name, w := range want {
		agree(t, name, got[name].F, 1, w.F, 1e-6)
		if !slices.Equal(got[name].I, w.I) {
			t.Errorf("%s is %v, expected %v", name, got[name].I, w.I)
		}
	}
	if want[models.StepName].I[0] != 3 {
		t.Errorf("%d steps were counted, expected 3", want[models.StepName].I[0])
	}
}

// TestGradientsOfMicrobatchesAddUp compares the gradients that the optimizer
// reads: its own results are divided by roots.
func TestGradientsOfMicrobatchesAddUp(t *testing.T) {
	for name, s := range small() {
		whole := train(t, s, adamW(), models.Size{Microbatch: 8, Microbatches: 1, Batch: 8})
		parts := train(t, s, adamW(), models.Size{Microbatch: 2, Microbatches: 4, Batch: 8})
		st := fresh(whole, 1)
		in := state{models.InputName: noise(1, batch(8, s.Input)), models.TargetName: noise(2, batch(8, s.Target)), models.BaseName: ref.Ints([]int32{0})}
		want := st.run(t, whole, in, nil)
		sums := map[*graph.Value]ref.Array{}
		for m := range 4 {
			vals := st.run(t, parts, state{
				models.InputName:  rows(in[models.InputName], 2*m, 2*m+2),
				models.TargetName: rows(in[models.TargetName], 2*m, 2*m+2),
				models.BaseName:   ref.Ints([]int32{int32(2 * m)}),
			}, nil)
			for _, a := range parts.Accums {
				if m == 0 {
					sums[a.Sum] = ref.New(a.Part.Meta)
				}
				for j, x := range vals[a.Part].F {
					sums[a.Sum].F[j] += x
				}
			}
		}
		got := st.run(t, parts, firstTwo(in), sums)
		byName := gradients(parts)
		for w, g := range gradients(whole) {
			near(t, name+": gradient of "+w, got[byName[w]].F, want[g].F)
		}
	}
}

// firstTwo is the first microbatch of two samples, to run the update with.
func firstTwo(in state) state {
	return state{
		models.InputName:  rows(in[models.InputName], 0, 2),
		models.TargetName: rows(in[models.TargetName], 0, 2),
		models.BaseName:   in[models.BaseName],
	}
}

// near compares to 1e-12, absolutely: gradients here are about 1, some are 0.
func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-12) {
			t.Fatalf("%s: element %d is %v, expected %v", what, i, got[i], want[i])
		}
	}
}

// TestGraphsOfAllSizesAreOne: the runtime finds state by node and value, so the
// graphs of both sizes must have the same ones.
func TestGraphsOfAllSizesAreOne(t *testing.T) {
	specs := small()
	for _, c := range cases() {
		specs[fmt.Sprintf("%s %v %v", typeOf(c.layer), c.in, c.out)] = around(c)
	}
	o := adamW()
	o.ClipNorm = 1
	for name, s := range specs {
		for _, microbatches := range []int{1, 3} {
			a := train(t, s, o, models.Size{Microbatch: 4, Microbatches: microbatches, Batch: 4 * microbatches})
			for m := 1; m <= 3; m++ {
				b := train(t, s, o, models.Size{Microbatch: m, Microbatches: microbatches, Batch: 4*(microbatches-1) + m})
				if x, y := outline(a), outline(b); !slices.Equal(x, y) {
					t.Errorf("%s: a microbatch of 4 has %d nodes and values, one of %d has %d, which differ", name, len(x), m, len(y))
				}
			}
		}
	}
}

// outline is a graph without its sizes, a line for each node, value, sum and
// assignment.
func outline(g *graph.Graph) []string {
	var out []string
	for _, n := range g.Nodes {
		out = append(out, fmt.Sprint(n.ID, n.Op.Kind(), n.Phase, n.Layer, len(n.In), len(n.Out)))
	}
	for _, v := range g.Values {
		out = append(out, fmt.Sprint(v.ID, v.Name, v.Kind, v.Role))
	}
	for _, v := range g.Vars {
		out = append(out, v.String())
	}
	for _, a := range g.Accums {
		out = append(out, a.Part.Name+" "+a.Sum.Name)
	}
	for _, a := range g.Assigns {
		out = append(out, a.Var.Name+" "+a.New.Name)
	}
	return out
}

func TestRingsHoldMeansOfSteps(t *testing.T) {
	s := small()["gpt"]
	g := train(t, s, adamW(), models.Size{Microbatch: 4, Microbatches: 1, Batch: 4, Ring: 2})
	st := fresh(g, 1)
	in := state{models.InputName: noise(1, batch(4, s.Input)), models.TargetName: noise(2, batch(4, s.Target)), models.BaseName: ref.Ints([]int32{0})}
	loss, right := find(t, g, "cross_entropy").Out[0], find(t, g, "correct").Out[0]
	for step := range 3 {
		vals := st.step(t, g, in)
		if got, want := st[models.LossRing].F[step%2], vals[loss].F[0]/12; got != want && math.Abs(got/want-1) > 1e-12 {
			t.Errorf("step %d: the ring holds loss %v, expected %v", step, got, want)
		}
		if got, want := st[models.CorrectRing].F[step%2], vals[right].F[0]/12; math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: the ring holds accuracy %v, expected %v", step, got, want)
		}
	}
	mse := train(t, small()["mlp"], adamW(), models.Size{Microbatch: 4, Microbatches: 1, Batch: 4})
	if mse.Find(models.CorrectRing) != nil || mse.Find(models.LossRing) == nil {
		t.Error("regression needs a ring of losses and none of right answers")
	}
}

// The ring of norms has that of the mean gradient before it is clipped, and computing
// it changes no weight.
func TestRingOfGradientNorms(t *testing.T) {
	s, z := small()["mlp"], models.Size{Microbatch: 2, Microbatches: 2, Batch: 4, Ring: 3}
	in := state{models.InputName: noise(1, batch(2, s.Input)), models.TargetName: noise(2, batch(2, s.Target)), models.BaseName: ref.Ints([]int32{0})}
	plain := optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 1}}
	after := map[string]state{}
	for name, o := range map[string]struct {
		clip float64
		norm bool
	}{"plain": {0, false}, "norm": {0, true}, "clip": {1e-3, false}, "both": {1e-3, true}} {
		spec := plain
		spec.ClipNorm, spec.GradNorm = o.clip, o.norm
		g := train(t, s, spec, z)
		st := fresh(g, 1)
		st.step(t, g, in)
		after[name] = st
		if _, has := st[models.GradNormRing]; has != o.norm {
			t.Errorf("%s: a ring of norms: %v", name, has)
		}
	}
	first := fresh(train(t, s, plain, z), 1)
	sum := 0.0
	for _, v := range train(t, s, plain, z).Vars {
		if v.Role != graph.Parameter {
			continue
		}
		for i, w := range after["plain"][v.Name].F { // a step of learning rate 1 is the gradient
			sum += (first[v.Name].F[i] - w) * (first[v.Name].F[i] - w)
			if after["norm"][v.Name].F[i] != w || after["both"][v.Name].F[i] != after["clip"][v.Name].F[i] {
				t.Fatalf("%s[%d] changes with the norm", v.Name, i)
			}
		}
	}
	for _, name := range []string{"norm", "both"} {
		if got := after[name][models.GradNormRing].F[0]; math.Abs(got-math.Sqrt(sum)) > 1e-9 {
			t.Errorf("%s: norm %v, by hand %v", name, got, math.Sqrt(sum))
		}
	}
}

// TestEvalAddsUpOverBatches: sums over terms, with the training's own weights.
func TestEvalAddsUpOverBatches(t *testing.T) {
	s := small()["cnn"]
	g := train(t, s, adamW(), models.Size{Microbatch: 4, Microbatches: 1, Batch: 4})
	in := state{models.InputName: noise(1, batch(4, s.Input)), models.TargetName: noise(2, batch(4, s.Target))}
	e, err := models.Eval(s, models.Size{Microbatch: 4})
	if err != nil {
		t.Fatal(err)
	}
	st := fresh(g, 1)
	for _, v := range e.Vars {
		if v.Role == graph.Metric {
			st[v.Name] = ref.New(v.Meta)
		} else if w := g.Find(v.Name); w == nil || !w.Meta.Equal(v.Meta) || w.Role != v.Role || w.Init != v.Init {
			t.Errorf("%v differs in training: %v", v, w)
		}
	}
	vals := st.run(t, g, in, nil)
	st.step(t, e, in)
	st.step(t, e, in)
	agree(t, "loss of two batches", st[models.EvalLoss].F, 0.5, vals[find(t, g, "cross_entropy").Out[0]].F, 1e-12)
	agree(t, "right answers", st[models.EvalCorrect].F, 0.5, vals[find(t, g, "correct").Out[0]].F, 1e-12)
}

// Building any graph of a model ends with the error of Stop.
func TestGraphsStop(t *testing.T) {
	s, over := small()["mlp"], errors.New("over")
	z := models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Ring: 1, Stop: func() error { return over }}
	_, training := models.Train(s, adamW(), z)
	_, eval := models.Eval(s, z)
	_, predict := models.Predict(s, z)
	for name, err := range map[string]error{"train": training, "eval": eval, "predict": predict} {
		if !errors.Is(err, over) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPredictAnswers(t *testing.T) {
	for loss, want := range map[string]string{"cross_entropy": "softmax", "bce": "sigmoid", "mse": ""} {
		s := models.Spec{Input: shape.F32(3), Target: shape.F32(2), Loss: loss, Layers: models.MLP(nil, "relu", 2, at)}
		g, err := models.Predict(s, models.Size{Microbatch: 2})
		if err != nil {
			t.Fatal(err)
		}
		out := g.Outputs[0]
		if out.Name != models.PredictOutput || !out.Meta.Equal(shape.F32(2, 2)) {
			t.Errorf("%s: predict gives %v", loss, out)
		}
		if k := out.Node.Op.Kind(); want != "" && k != want || want == "" && k != "add" {
			t.Errorf("%s: predict ends in %s", loss, k)
		}
		for _, v := range g.Inputs {
			if v.Name != models.InputName {
				t.Errorf("%s: predict takes %v", loss, v)
			}
		}
	}
}
