package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// GatedMLP is down(f(gate(x))·up(x)) (Shazeer, "GLU Variants Improve Transformer", 2020). Its
// projections gate_proj, up_proj and down_proj have weights [out,in], named and laid out as
// Llama's.
type GatedMLP struct {
	Hidden     int    `yaml:"hidden" min:"1" doc:"numbers between the projections"`
	Activation string `yaml:"activation" words:"silu gelu gelu_tanh" doc:"applied to the gate: silu makes it SwiGLU, gelu GeGLU"`
	Bias       bool   `yaml:"bias" doc:"add a learned number to each output of the projections"`

	Std float64 `yaml:"-"` // deviation of normal initial weights, with zero biases; 0: as PyTorch
}

func init() {
	builtIn(LayerType[GatedMLP]{Name: "gated_mlp", Takes: Features, Positionwise: true, Defaults: GatedMLP{Activation: "silu"},
		Doc: "down(f(gate(x))·up(x)); its projections are `gate_proj`, `up_proj` and `down_proj`."})
}

// gates are the ops of activations.
var gates = map[string]string{"silu": "swiglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh"}

// Build appends the layer.
func (l GatedMLP) Build(b *Builder, x *graph.Value) *graph.Value {
	project := func(name string, x *graph.Value, units int) *graph.Value {
		return Dense{Units: units, NoBias: !l.Bias, Std: l.Std}.under(b, name+".", x)
	}
	up := ops.GatedOf(b.Builder, gates[l.Activation], project("gate_proj", x, l.Hidden), project("up_proj", x, l.Hidden))
	return project("down_proj", up, x.Meta.Shape.Dim(-1))
}
