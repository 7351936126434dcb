package models

import (
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// builders is the table of layer types: each appends one layer's nodes to x
// and returns its output.
var builders map[string]func(c *context, l *Layer, x *graph.Value) *graph.Value

func init() {
	builders = map[string]func(*context, *Layer, *graph.Value) *graph.Value{
		"dense": dense, "conv2d": conv2d, "attention": attention,
		"embedding": embedding, "positional_embedding": positional,
		"layernorm": layerNorm, "batchnorm": batchNorm, "dropout": dropout,
		"max_pool": maxPool, "avg_pool": avgPool, "global_avg_pool": globalAvgPool,
		"flatten": flatten, "reshape": reshape, "transpose": transpose, "slice": slice,
		"residual": residual, "softmax": softmax, "log_softmax": logSoftmax,
	}
	for name := range activations {
		builders[name] = func(c *context, _ *Layer, x *graph.Value) *graph.Value {
			return activations[name](c.b, x)
		}
	}
}

var activations = map[string]func(*graph.Builder, *graph.Value) *graph.Value{
	"relu": ops.Relu, "gelu": ops.GeluErf, "gelu_tanh": ops.GeluTanh, "silu": ops.Silu,
	"sigmoid": ops.Sigmoid, "tanh": ops.Tanh, "exp": ops.Exp, "log": ops.Log, "sqrt": ops.Sqrt,
}

// activate applies a layer's own activation.
func (c *context) activate(name string, x *graph.Value) *graph.Value {
	if name == "" {
		return x
	}
	f, ok := activations[name]
	if !ok {
		c.fail("no activation %q", name)
		return x
	}
	return f(c.b, x)
}

// kaiming is PyTorch's default for dense and conv layers: uniform within
// 1/sqrt(fan-in) (He et al., "Delving Deep into Rectifiers", 2015, with a=√5).
func kaiming(fanIn int) graph.Init {
	return graph.Init{Kind: graph.Uniform, A: 1 / math.Sqrt(float64(max(1, fanIn)))}
}

// dense is y[…,O] = x[…,I]·Wᵀ + b with W [O,I], or x·W with W [I,O].
func dense(c *context, l *Layer, x *graph.Value) *graph.Value {
	if x.Meta.Shape.Rank() < 2 || x.Meta.Shape.Rank() > 3 || x.Meta.DType != shape.Float32 {
		c.fail("its input is %v: it takes [batch,features] or [batch,time,features]; put a flatten layer before it", x.Meta)
		return x
	}
	in := x.Meta.Shape.Dim(-1)
	if l.In != 0 && l.In != in {
		c.fail("input has %d features, weight expects %d", in, l.In)
		return x
	}
	y := c.product(l, x, in)
	if !l.NoBias && c.b.Err() == nil {
		y = ops.Add(c.b, y, c.param("bias", []int{y.Meta.Shape.Dim(-1)}, l.biasInit(in), "bias"))
	}
	return c.activate(l.Activation, y)
}

func (l *Layer) biasInit(fanIn int) graph.Init {
	if l.Std > 0 {
		return graph.Init{}
	}
	return kaiming(fanIn)
}

func (c *context) product(l *Layer, x *graph.Value, in int) *graph.Value {
	if l.Tied != "" {
		w := c.byName[l.Tied]
		if w == nil {
			c.fail("tied to %q, which no earlier layer declares", l.Tied)
			return x
		}
		return ops.MatMulOf(c.b, x, w, false, true)
	}
	init := kaiming(in)
	if l.Std > 0 {
		init = graph.Init{Kind: graph.Normal, A: l.Std}
	}
	if l.InOut {
		return ops.MatMulOf(c.b, x, c.param("weight", []int{in, l.Units}, init, "weight"), false, false)
	}
	return ops.MatMulOf(c.b, x, c.param("weight", []int{l.Units, in}, init, "weight"), false, true)
}

// conv2d is y[B,O,H',W'] from x[B,C,H,W] and a weight [O,C/groups,K,K].
func conv2d(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !c.images(x) {
		return x
	}
	groups, stride := max(1, l.Groups), max(1, l.Stride)
	ch := x.Meta.Shape[1]
	if ch%groups != 0 || l.Channels%groups != 0 {
		c.fail("%d groups do not divide %d input and %d output channels", groups, ch, l.Channels)
		return x
	}
	init := kaiming(ch / groups * l.Kernel * l.Kernel)
	w := c.param("weight", []int{l.Channels, ch / groups, l.Kernel, l.Kernel}, init, "weight")
	y := ops.Conv2DOf(c.b, x, w, stride, l.Padding, groups)
	if !l.NoBias {
		bias := c.param("bias", []int{l.Channels}, init, "bias")
		y = ops.Add(c.b, y, ops.ReshapeTo(c.b, bias, l.Channels, 1, 1))
	}
	return c.activate(l.Activation, y)
}

// images checks that x is [B,C,H,W].
func (c *context) images(x *graph.Value) bool {
	if x.Meta.Shape.Rank() == 4 && x.Meta.DType == shape.Float32 {
		return true
	}
	c.fail("its input is %v: it takes images [batch,channels,height,width]; put a reshape layer before it", x.Meta)
	return false
}

func maxPool(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !c.images(x) {
		return x
	}
	return ops.MaxPool(c.b, x, l.Kernel, l.poolStride(), l.Padding)
}

func avgPool(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !c.images(x) {
		return x
	}
	return ops.AvgPool(c.b, x, l.Kernel, l.poolStride(), l.Padding)
}

func (l *Layer) poolStride() int {
	if l.Stride > 0 {
		return l.Stride
	}
	return l.Kernel
}

// globalAvgPool is [B,C] from [B,C,H,W].
func globalAvgPool(c *context, _ *Layer, x *graph.Value) *graph.Value {
	if !c.images(x) {
		return x
	}
	return ops.Mean(c.b, x, false, 2, 3)
}

func flatten(c *context, _ *Layer, x *graph.Value) *graph.Value {
	return ops.ReshapeTo(c.b, x, x.Meta.Shape[0], x.Meta.Elems()/max(1, x.Meta.Shape[0]))
}

func reshape(c *context, l *Layer, x *graph.Value) *graph.Value {
	return ops.ReshapeTo(c.b, x, append([]int{x.Meta.Shape[0]}, l.Shape...)...)
}

func transpose(c *context, l *Layer, x *graph.Value) *graph.Value {
	perm := []int{0}
	for _, p := range l.Perm {
		perm = append(perm, p+1)
	}
	return ops.TransposeTo(c.b, x, perm...)
}

func slice(c *context, l *Layer, x *graph.Value) *graph.Value {
	return ops.SliceOf(c.b, x, append([]int{0}, l.Start...), append([]int{x.Meta.Shape[0]}, l.Stop...))
}

func softmax(c *context, _ *Layer, x *graph.Value) *graph.Value { return ops.SoftmaxOf(c.b, x) }

func logSoftmax(c *context, _ *Layer, x *graph.Value) *graph.Value { return ops.LogSoftmaxOf(c.b, x) }

func dropout(c *context, l *Layer, x *graph.Value) *graph.Value { return c.dropout(x, l.Rate) }

// residual is x + body(x).
func residual(c *context, l *Layer, x *graph.Value) *graph.Value {
	y := c.run(l.Body, c.b.Layer().Block, x)
	if c.b.Err() == nil && !y.Meta.Equal(x.Meta) {
		c.fail("its layers turn %v into %v: a residual block must keep its input's shape", x.Meta, y.Meta)
		return x
	}
	return ops.Add(c.b, x, y)
}
