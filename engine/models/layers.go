package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Layer is one layer as a config describes it. Type decides which of the other
// fields are used.
type Layer struct {
	Type  string
	Name  string // unique; the prefix of its variables. Empty: type and index
	Block string // the top-level layer it belongs to. Empty: its own
	Pos   graph.Pos

	Units       int     // dense: outputs
	In          int     // dense: expected number of inputs; 0: not checked
	Channels    int     // conv2d: outputs
	Kernel      int     // conv2d and pools: side of the window
	Stride      int     // conv2d and pools; 0: 1 for conv2d, Kernel for pools
	Padding     int     // conv2d and pools: zeros added on each side
	Groups      int     // conv2d: separate groups of channels; 0: 1
	NoBias      bool    // dense, conv2d
	Activation  string  // dense, conv2d: applied to the output. Empty: none
	Rate        float64 // dropout, attention: probability that a number is dropped in training
	Eps         float64 // layernorm, batchnorm: added to the variance; 0: 1e-5
	Momentum    float64 // batchnorm: weight of the newest statistics; 0: 0.1
	Heads       int     // attention
	Vocab       int     // embedding: rows
	Width       int     // embedding: columns
	Context     int     // positional_embedding: rows
	Tied        string  // dense: the variable whose transpose is the weight. Empty: a weight of its own
	InOut       bool    // dense: the weight is [in,out], as GPT-2 publishes it, not [out,in]
	Std         float64 // dense, attention, embeddings: deviation of normal initial weights, with zero biases; 0: as PyTorch
	ResidualStd float64 // attention: Std of its output projection; 0: Std
	Shape       []int   // reshape, broadcast: of a sample; one axis of reshape may be -1 and is computed
	Perm        []int   // transpose: axes of a sample, from 0
	Start, Stop []int   // slice: a range for each axis of a sample
	Axes        []int   // sum, mean, max: axes of a sample, from 0
	Keep        bool    // sum, mean, max: keep reduced axes, with size 1
	Axis        int     // concat: axis of a sample, from 0
	Scale       float64 // affine
	Shift       float64 // affine
	Body        []Layer // residual, concat
}

// basicLayers are the rows of this file in the table of layer types.
var basicLayers = map[string]layerType{
	"dense": {rows, dense}, "softmax": {features, softmax}, "log_softmax": {features, logSoftmax},
}

// dense is y[…,O] = x[…,I]·Wᵀ + b with W [O,I], or x·W with W [I,O].
func dense(c *context, l *Layer, x *graph.Value) *graph.Value {
	in := x.Meta.Shape.Dim(-1)
	if !c.positive("units", l.Units) {
		return x
	}
	if l.In != 0 && l.In != in {
		c.fail("input has %d features, weight expects %d", in, l.In)
		return x
	}
	y := denseProduct(c, l, x, in)
	if !l.NoBias && c.b.Err() == nil {
		y = ops.Add(c.b, y, c.param("bias", []int{y.Meta.Shape.Dim(-1)}, biasInit(l, in), "bias"))
	}
	return c.activate(l.Activation, y)
}

// biasInit is the first contents of the bias.
func biasInit(l *Layer, fanIn int) graph.Init {
	if l.Std > 0 {
		return graph.Init{}
	}
	return kaiming(fanIn)
}

// denseProduct is x times the weight, which may be tied to another layer's.
func denseProduct(c *context, l *Layer, x *graph.Value, in int) *graph.Value {
	if l.Tied != "" {
		w := c.byName[l.Tied]
		if w == nil || w.Meta.Shape.Rank() != 2 {
			c.fail("tied to %q, which no earlier layer declares: name a weight [units,features] of one", l.Tied)
			return x
		}
		if l.Units != w.Meta.Shape[0] {
			c.fail("tied to %v, which gives %d outputs: set units to that number, not %d", w, w.Meta.Shape[0], l.Units)
			return x
		}
		return c.matmul(x, w, true)
	}
	init := kaiming(in)
	if l.Std > 0 {
		init = graph.Init{Kind: graph.Normal, A: l.Std}
	}
	if l.InOut {
		return c.matmul(x, c.param("weight", []int{in, l.Units}, init, "weight"), false)
	}
	return c.matmul(x, c.param("weight", []int{l.Units, in}, init, "weight"), true)
}

// activations are the elementwise functions, by name.
var activations = map[string]func(*graph.Builder, *graph.Value) *graph.Value{
	"relu": ops.Relu, "gelu": ops.GeluErf, "gelu_tanh": ops.GeluTanh, "silu": ops.Silu,
	"sigmoid": ops.Sigmoid, "tanh": ops.Tanh, "exp": ops.Exp, "log": ops.Log, "sqrt": ops.Sqrt,
	"neg": ops.Neg, "abs": ops.Abs, "square": ops.Square, "rsqrt": ops.Rsqrt,
}

// activationLayers has a layer type for each activation.
func activationLayers() map[string]layerType {
	table := map[string]layerType{}
	for name, f := range activations {
		table[name] = layerType{numbers, func(c *context, _ *Layer, x *graph.Value) *graph.Value { return f(c.b, x) }}
	}
	return table
}

// activate applies a layer's own activation, if it has one.
func (c *context) activate(name string, x *graph.Value) *graph.Value {
	if name == "" {
		return x
	}
	f, ok := activations[name]
	if !ok {
		c.fail("no activation %q: there are %s", name, listed(activations))
		return x
	}
	return f(c.b, x)
}

func softmax(c *context, _ *Layer, x *graph.Value) *graph.Value { return ops.SoftmaxOf(c.b, x) }

func logSoftmax(c *context, _ *Layer, x *graph.Value) *graph.Value { return ops.LogSoftmaxOf(c.b, x) }
