package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Dense is y[…,O] = x[…,I]·Wᵀ + b with W [O,I].
type Dense struct {
	Units      int    `yaml:"units" min:"1" doc:"outputs"`
	In         int    `yaml:"in" min:"0" doc:"inputs, to be checked; 0: no check"`
	NoBias     bool   `yaml:"bias,not" doc:"add a learned number to each output"`
	Activation string `yaml:"activation,omitempty" words:"relu gelu gelu_tanh silu sigmoid tanh" doc:"applied to the output; none unless given"`

	// What a published model has, and no config says.
	Tied  string  `yaml:"-"` // the variable whose transpose is the weight. Empty: a weight of its own
	InOut bool    `yaml:"-"` // the weight is [in,out], as GPT-2 publishes it, not [out,in]
	Std   float64 `yaml:"-"` // deviation of normal initial weights, with zero biases; 0: as PyTorch
}

func init() {
	builtIn(LayerType[Dense]{Name: "dense", Doc: "y = x·Wᵀ + b over the last axis.", Takes: Rows, Positionwise: true})
}

// Build appends the layer.
func (l Dense) Build(b *Builder, x *graph.Value) *graph.Value { return l.under(b, "", x) }

// under appends the layer, with a prefix before the names of its parameters.
func (l Dense) under(b *Builder, prefix string, x *graph.Value) *graph.Value {
	in := x.Meta.Shape.Dim(-1)
	if l.In != 0 && l.In != in {
		b.Failf("input has %d features, weight expects %d", in, l.In)
		return x
	}
	y := l.product(b, prefix, x, in)
	if !l.NoBias && b.Err() == nil {
		init := kaiming(in)
		if l.Std > 0 {
			init = graph.Init{}
		}
		y = ops.Add(b.Builder, y, b.Param(prefix+"bias", []int{y.Meta.Shape.Dim(-1)}, init, "bias"))
	}
	return b.c.activate(l.Activation, y)
}

// product is x times the weight, which may be tied to another layer's.
func (l Dense) product(b *Builder, prefix string, x *graph.Value, in int) *graph.Value {
	if l.Tied != "" {
		w := b.c.byName[l.Tied]
		if w == nil || w.Meta.Shape.Rank() != 2 {
			b.Failf("tied to %q, which no earlier layer declares: name a weight [units,features] of one", l.Tied)
			return x
		}
		if l.Units != w.Meta.Shape[0] {
			b.Failf("tied to %v, which gives %d outputs: set units to that number, not %d", w, w.Meta.Shape[0], l.Units)
			return x
		}
		return b.MatMul(x, w, true)
	}
	init := kaiming(in)
	if l.Std > 0 {
		init = graph.Init{Kind: graph.Normal, A: l.Std}
	}
	dims := []int{l.Units, in}
	if l.InOut {
		dims = []int{in, l.Units}
	}
	return b.c.adapted(prefix, x, b.MatMul(x, b.c.matrix(prefix+"weight", dims, init, "weight"), !l.InOut), l.InOut)
}
