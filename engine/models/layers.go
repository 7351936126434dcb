package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

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
