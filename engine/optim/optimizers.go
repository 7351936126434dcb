package optim

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Decay is the key that all of Berth's own optimizers have.
type Decay struct {
	WeightDecay float64 `yaml:"weight_decay" min:"0" doc:"pull of the weights towards 0. adamw and lion subtract it from the weights, times lr; the others add it to the gradient"`
}

// of is the weight decay of the weight that is updated.
func (k Decay) of(u *Update) float64 {
	if u.Decays() {
		return k.WeightDecay
	}
	return 0
}

// SGD are the keys of the optimizer sgd.
type SGD struct{ Decay }

// Momentum are the keys of the optimizers momentum and nesterov.
type Momentum struct {
	Momentum float64 `yaml:"momentum" min:"0" below:"1" doc:"share of the last update that is kept"`
	Decay
}

// Adam are the keys of the optimizers adam and adamw.
type Adam struct {
	Betas [2]float64 `yaml:"betas" min:"0" below:"1" doc:"decay of the running averages of the gradient and of its square"`
	Eps   float64    `yaml:"eps" above:"0" doc:"added to the root of the average square"`
	Decay
}

// Lion are the keys of the optimizer lion.
type Lion struct {
	Betas [2]float64 `yaml:"betas" min:"0" below:"1" doc:"share of the average that the sign is taken with, the rest being the gradient, and decay of that average"`
	Decay
}

func init() {
	betas := [2]float64{0.9, 0.999}
	builtIn(OptimizerType[SGD]{Name: "sgd", Doc: "w ← w − lr·g.", Sums: true,
		Update: func(u *Update, k SGD, w, g *graph.Value) *graph.Value {
			return descend(u, ops.SGD{WeightDecay: k.of(u)}, w, g)
		}})
	builtIn(OptimizerType[Momentum]{Name: "momentum", Doc: "v ← momentum·v + g, w ← w − lr·v.", Sums: true, Defaults: Momentum{Momentum: 0.9},
		Update: func(u *Update, k Momentum, w, g *graph.Value) *graph.Value {
			return descend(u, ops.SGD{Momentum: k.Momentum, WeightDecay: k.of(u)}, w, g)
		}})
	builtIn(OptimizerType[Momentum]{Name: "nesterov", Doc: "As momentum, looking ahead: w ← w − lr·(g + momentum·v).", Sums: true, Defaults: Momentum{Momentum: 0.9},
		Update: func(u *Update, k Momentum, w, g *graph.Value) *graph.Value {
			return descend(u, ops.SGD{Momentum: k.Momentum, Nesterov: k.Momentum > 0, WeightDecay: k.of(u)}, w, g)
		}})
	builtIn(OptimizerType[Adam]{Name: "adam", Doc: "Kingma and Ba, 2015.", Sums: true, Defaults: Adam{Betas: betas, Eps: 1e-8},
		Update: func(u *Update, k Adam, w, g *graph.Value) *graph.Value { return adam(u, k, false, w, g) }})
	builtIn(OptimizerType[Adam]{Name: "adamw", Doc: "Adam with weight decay apart from the gradient; Loshchilov and Hutter, 2019.", Sums: true,
		Defaults: Adam{Betas: betas, Eps: 1e-8, Decay: Decay{0.01}},
		Update:   func(u *Update, k Adam, w, g *graph.Value) *graph.Value { return adam(u, k, true, w, g) }})
	builtIn(OptimizerType[Lion]{Name: "lion", Doc: "c ← β₁·m + (1−β₁)·g, w ← w − lr·(sign(c) + weight_decay·w), m ← β₂·m + (1−β₂)·g; Chen et al., 2023. Each weight moves by `lr`, so `lr` is 3 to 10 times smaller than for adamw, and `weight_decay` as much larger.",
		Sums: true, Defaults: Lion{Betas: [2]float64{0.9, 0.99}}, Update: lion})
}

// descend goes a step down the gradient.
func descend(u *Update, op ops.SGD, w, g *graph.Value) *graph.Value {
	op.Scale, op.Clip = u.Scale(), u.Clip() != nil
	in := []*graph.Value{w, g, u.Rate()}
	if op.Momentum > 0 {
		in = append(in, u.State("momentum"))
	}
	return u.apply(op, in)
}

func adam(u *Update, k Adam, decoupled bool, w, g *graph.Value) *graph.Value {
	op := ops.Adam{
		Beta1: k.Betas[0], Beta2: k.Betas[1], Eps: k.Eps, WeightDecay: k.of(u),
		Decoupled: decoupled, Scale: u.Scale(), Clip: u.Clip() != nil,
	}
	return u.apply(op, []*graph.Value{w, g, u.State("exp_avg"), u.State("exp_avg_sq"), u.Step(), u.Rate()})
}

func lion(u *Update, k Lion, w, g *graph.Value) *graph.Value {
	op := ops.Lion{Beta1: k.Betas[0], Beta2: k.Betas[1], WeightDecay: k.of(u), Scale: u.Scale(), Clip: u.Clip() != nil}
	return u.apply(op, []*graph.Value{w, g, u.State("exp_avg"), u.Rate()})
}

// apply appends an op that gives the new weight, and then those of the states. The same op
// makes the average.
func (x *Update) apply(op graph.Op, in []*graph.Value) *graph.Value {
	if x.Clip() != nil {
		in = append(in, x.Clip())
	}
	states := x.states
	if d := x.u.EMA; d > 0 {
		x.average = x.u.average(x.v)
		states = slices.Insert(slices.Clone(states), 0, x.average)
		op, in = ops.Averaged{Op: op, Decay: d}, slices.Insert(in, 1, x.average)
	}
	out := x.Apply(op, in...)
	if x.Err() != nil {
		return in[0]
	}
	for i, s := range states {
		x.Set(s, out[1+i])
	}
	return out[0]
}
