package ref_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/registry"
)

// Two steps by hand with w = 1, then g = 1 and 0.5; lr 0.1.
func TestSGD(t *testing.T) {
	for _, c := range []struct {
		name string
		op   ops.SGD
		want [2]float64
	}{
		{"plain", ops.SGD{Scale: 1}, [2]float64{0.9, 0.85}},
		{"scaled", ops.SGD{Scale: 2}, [2]float64{0.8, 0.7}},
		{"decay", ops.SGD{Scale: 1, WeightDecay: 0.1}, [2]float64{0.89, 0.8311}},
		{"momentum", ops.SGD{Scale: 1, Momentum: 0.9}, [2]float64{0.9, 0.76}},
		{"nesterov", ops.SGD{Scale: 1, Momentum: 0.9, Nesterov: true}, [2]float64{0.81, 0.634}},
	} {
		w, v := scalar(1), scalar(0)
		for i, g := range []float64{1, 0.5} {
			in := []ref.Array{w, scalar(g), scalar(0.1)}
			if c.op.Momentum > 0 {
				in = append(in, v)
			}
			out := compute(t, c.op, in...)
			w = out[0]
			if c.op.Momentum > 0 {
				v = out[1]
			}
			near(t, c.name, w.F, c.want[i:i+1])
		}
	}
	clipped := compute(t, ops.SGD{Scale: 2, Clip: true}, scalar(1), scalar(1), scalar(0.1), scalar(0.25))
	near(t, "clipped", clipped[0].F, []float64{0.95})
}

// One step by hand: bias correction makes both moments the gradient's own.
func TestAdam(t *testing.T) {
	o := ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 0.1, WeightDecay: 0.1, Scale: 1}
	in := []ref.Array{scalar(1), scalar(1), scalar(0), scalar(0), count(0), scalar(0.1)}
	near(t, "coupled", compute(t, o, in...)[0].F, []float64{1 - 0.1*1.1/1.2})
	o.Decoupled = true
	out := compute(t, o, in...)
	near(t, "decoupled", out[0].F, []float64{0.99 - 0.1/1.1})
	near(t, "first moment", out[1].F, []float64{0.1})
	near(t, "second moment", out[2].F, []float64{0.001})
	o.Clip, o.WeightDecay = true, 0
	near(t, "clipped", compute(t, o, append(in, scalar(0.5))...)[0].F, []float64{1 - 0.1*0.5/0.6})
}

// Three steps by hand with scaled gradients 1, -3 and 0; betas 0.5 and 0.75, lr 0.1. The second sign is
// that of half of 0.25 - 3 and the third that of m, so -1 both times.
func TestLion(t *testing.T) {
	o := ops.Lion{Beta1: 0.5, Beta2: 0.75, WeightDecay: 0.5, Scale: 2}
	w, m := scalar(1), scalar(0)
	for i, want := range []struct{ g, w, m float64 }{
		{0.5, 1 - 0.1*(1+0.5), 0.25},
		{-1.5, 0.85 - 0.1*(-1+0.5*0.85), 0.75*0.25 - 0.25*3},
		{0, 0.9075 - 0.1*(-1+0.5*0.9075), 0.75 * -0.5625},
	} {
		out := compute(t, o, w, scalar(want.g), m, scalar(0.1))
		w, m = out[0], out[1]
		near(t, fmt.Sprintf("weight of step %d", i), w.F, []float64{want.w})
		near(t, fmt.Sprintf("moment of step %d", i), m.F, []float64{want.m})
	}
	o.Clip = true
	out := compute(t, o, scalar(1), scalar(4), scalar(-1), scalar(0.1), scalar(0.125))
	near(t, "at sign 0", out[0].F, []float64{1 - 0.1*0.5})
	near(t, "clipped moment", out[1].F, []float64{-0.5})
}

// Every schedule of this module has values by hand.
func TestLearningRates(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []struct {
		schedule string
		keys     any
		want     map[int32]float64
	}{
		{"constant", nil, map[int32]float64{0: 0.25, 3: 1, 4: 1, 100: 1}},
		{"step", ops.Stepped{Every: 3, Gamma: 0.5}, map[int32]float64{0: 0.25, 4: 1, 6: 1, 7: 0.5, 10: 0.25}},
		{"cosine", ops.Falling{Min: 0.2}, map[int32]float64{2: 0.75, 4: 1, 8: 0.6, 12: 0.2, 100: 0.2}},
		{"linear", ops.Falling{Min: 0.2}, map[int32]float64{1: 0.5, 4: 1, 6: 0.8, 8: 0.6, 12: 0.2, 100: 0.2}},
		{"wsd", ops.WSD{Falling: ops.Falling{Min: 0.2}, DecayRatio: 0.5}, map[int32]float64{1: 0.5, 4: 1, 8: 1, 9: 0.8, 11: 0.4, 12: 0.2, 100: 0.2}},
		{"inverse_sqrt", nil, map[int32]float64{0: 0.25, 3: 1, 4: math.Sqrt(4. / 5), 8: 2. / 3, 15: 0.5, 99: 0.2}},
	} {
		seen[c.schedule] = true
		o := ops.LearningRate{Schedule: c.schedule, Keys: c.keys, Base: 1, Warmup: 4, Total: 12}
		for step, want := range c.want {
			near(t, c.schedule, compute(t, o, count(step))[0].F, []float64{want})
		}
	}
	seen["one_cycle"] = true // see TestOneCycle
	for _, e := range registry.List(registry.Schedule) {
		if e.Version == 0 && !seen[e.Name] {
			t.Errorf("no case for schedule %s", e.Name)
		}
	}
}
