package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// The elementwise functions, which work on each number alone.
type (
	Relu     struct{} // max(x, 0)
	Gelu     struct{} // x·Φ(x), by the error function
	GeluTanh struct{} // Approximation of gelu by tanh, as in GPT-2
	Silu     struct{} // x·sigmoid(x)
	Sigmoid  struct{} // 1/(1+e⁻ˣ)
	Tanh     struct{} // tanh(x)
	Exp      struct{} // eˣ
	Log      struct{} // ln(x)
	Sqrt     struct{} // √x
	Neg      struct{} // -x
	Abs      struct{} // |x|
	Square   struct{} // x²
	Rsqrt    struct{} // 1/√x
)

func init() {
	elementwise[Relu]("relu", "max(x, 0).")
	elementwise[Gelu]("gelu", "x·Φ(x), by the error function.")
	elementwise[GeluTanh]("gelu_tanh", "Approximation of gelu by tanh, as in GPT-2.")
	elementwise[Silu]("silu", "x·sigmoid(x).")
	elementwise[Sigmoid]("sigmoid", "1/(1+e⁻ˣ). Not before loss bce, which applies it itself.")
	elementwise[Tanh]("tanh", "tanh(x).")
	elementwise[Exp]("exp", "eˣ.")
	elementwise[Log]("log", "ln(x).")
	elementwise[Sqrt]("sqrt", "√x.")
	elementwise[Neg]("neg", "-x.")
	elementwise[Abs]("abs", "|x|.")
	elementwise[Square]("square", "x².")
	elementwise[Rsqrt]("rsqrt", "1/√x.")
}

func elementwise[Keys Layer](name, doc string) {
	builtIn(LayerType[Keys]{Name: name, Doc: doc, Takes: Numbers, Positionwise: true})
}

// Build applies the function.
func (Relu) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Relu(b.Builder, x) }

// Build applies the function.
func (Gelu) Build(b *Builder, x *graph.Value) *graph.Value { return ops.GeluErf(b.Builder, x) }

// Build applies the function.
func (GeluTanh) Build(b *Builder, x *graph.Value) *graph.Value { return ops.GeluTanh(b.Builder, x) }

// Build applies the function.
func (Silu) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Silu(b.Builder, x) }

// Build applies the function.
func (Sigmoid) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Sigmoid(b.Builder, x) }

// Build applies the function.
func (Tanh) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Tanh(b.Builder, x) }

// Build applies the function.
func (Exp) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Exp(b.Builder, x) }

// Build applies the function.
func (Log) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Log(b.Builder, x) }

// Build applies the function.
func (Sqrt) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Sqrt(b.Builder, x) }

// Build applies the function.
func (Neg) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Neg(b.Builder, x) }

// Build applies the function.
func (Abs) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Abs(b.Builder, x) }

// Build applies the function.
func (Square) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Square(b.Builder, x) }

// Build applies the function.
func (Rsqrt) Build(b *Builder, x *graph.Value) *graph.Value { return ops.Rsqrt(b.Builder, x) }

// activations are the functions that a layer can apply to its own output.
var activations = map[string]func(*graph.Builder, *graph.Value) *graph.Value{
	"relu": ops.Relu, "gelu": ops.GeluErf, "gelu_tanh": ops.GeluTanh, "silu": ops.Silu,
	"sigmoid": ops.Sigmoid, "tanh": ops.Tanh,
}

// activate applies a layer's own activation, if it has one.
func (c *context) activate(name string, x *graph.Value) *graph.Value {
	if name == "" {
		return x
	}
	return activations[name](c.b, x)
}
