package models

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Layer is one layer as it was asked for. Which fields matter depends on Type.
type Layer struct {
	Type  string
	Name  string // unique; the prefix of its variables. Empty: type and index
	Block string // the top-level layer it belongs to; empty: its own
	Pos   graph.Pos

	Units       int     // dense: outputs
	In          int     // dense: inputs, checked against what arrives; 0 means infer
	Channels    int     // conv2d: outputs
	Kernel      int     // conv2d and pools: side of the window
	Stride      int     // conv2d and pools; 0 means 1 for conv2d, Kernel for pools
	Padding     int     // conv2d and pools: zeros on each side
	Groups      int     // conv2d; 0 means 1
	NoBias      bool    // dense, conv2d
	Activation  string  // dense, conv2d: applied to the output; empty means none
	Rate        float64 // dropout, attention: share dropped in training
	Eps         float64 // layernorm, batchnorm: added to the variance; 0 means 1e-5
	Momentum    float64 // batchnorm: weight of the newest statistics; 0 means 0.1
	Heads       int     // attention
	Vocab       int     // embedding: rows
	Width       int     // embedding: columns
	Context     int     // positional_embedding: rows
	Tied        string  // dense: name of the variable whose transpose is the weight
	InOut       bool    // dense: weight is [in,out], as GPT-2 publishes it, not [out,in]
	Std         float64 // dense, attention, embeddings: normal initialisation, bias zero; 0 means PyTorch's
	ResidualStd float64 // attention: the same for its output projection; 0 means Std
	Shape       []int   // reshape: per sample; -1 infers one
	Perm        []int   // transpose: axes per sample, from 0
	Start, Stop []int   // slice: per sample
	Axes        []int   // sum, mean, max: of a sample, from 0
	Keep        bool    // sum, mean, max: leave reduced axes as 1
	Axis        int     // concat: of a sample, from 0
	Scale       float64 // affine
	Shift       float64 // affine
	Body        []Layer // residual, concat
}

// layerType is what a type of layer accepts, and what appends one layer's nodes
// to x and returns its output.
type layerType struct {
	takes intake
	build func(c *context, l *Layer, x *graph.Value) *graph.Value
}

// types is the table of layer types.
var types map[string]layerType

func init() {
	types = map[string]layerType{
		"dense": {rows, dense}, "conv2d": {images, conv2d}, "attention": {sequence, attention},
		"embedding": {tokens, embedding}, "positional_embedding": {sequence, positional},
		"layernorm": {features, layerNorm}, "batchnorm": {channels, batchNorm}, "dropout": {numbers, dropout},
		"max_pool": {images, maxPool}, "avg_pool": {images, avgPool}, "global_avg_pool": {images, globalAvgPool},
		"flatten": {anything, flatten}, "reshape": {anything, reshape},
		"transpose": {anything, transpose}, "slice": {anything, slice},
		"residual": {numbers, residual}, "softmax": {features, softmax}, "log_softmax": {features, logSoftmax},
	}
	types["sum"] = layerType{numbers, reduction(ops.Sum)}
	types["mean"] = layerType{numbers, reduction(ops.Mean)}
	types["max"] = layerType{numbers, reduction(ops.Max)}
	types["affine"] = layerType{numbers, affine}
	types["broadcast"] = layerType{anything, broadcast}
	types["concat"] = layerType{numbers, concat}
	for name, f := range activations {
		types[name] = layerType{numbers, func(c *context, _ *Layer, x *graph.Value) *graph.Value { return f(c.b, x) }}
	}
}

var activations = map[string]func(*graph.Builder, *graph.Value) *graph.Value{
	"relu": ops.Relu, "gelu": ops.GeluErf, "gelu_tanh": ops.GeluTanh, "silu": ops.Silu,
	"sigmoid": ops.Sigmoid, "tanh": ops.Tanh, "exp": ops.Exp, "log": ops.Log, "sqrt": ops.Sqrt,
	"neg": ops.Neg, "abs": ops.Abs, "square": ops.Square, "rsqrt": ops.Rsqrt,
}

// activate applies a layer's own activation.
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

// listed is the names of a table in alphabetical order.
func listed[T any](table map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

// kaiming is PyTorch's default for dense and conv layers: uniform within
// 1/sqrt(fan-in) (He et al., "Delving Deep into Rectifiers", 2015, with a=√5).
func kaiming(fanIn int) graph.Init {
	return graph.Init{Kind: graph.Uniform, A: 1 / math.Sqrt(float64(max(1, fanIn)))}
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
		if w == nil || w.Meta.Shape.Rank() != 2 {
			c.fail("tied to %q, which no earlier layer declares: name a weight [units,features] of one", l.Tied)
			return x
		}
		if l.Units != w.Meta.Shape[0] {
			c.fail("tied to %v, which gives %d outputs: set units to that, not %d", w, w.Meta.Shape[0], l.Units)
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

// matmul is x·w in the model's precision, w stored as [out,in] if transposed.
func (c *context) matmul(x, w *graph.Value, transposed bool) *graph.Value {
	return c.b.One(ops.MatMul{TransB: transposed, BF16: c.spec.BF16}, x, w)
}

// conv2d is y[B,O,H',W'] from x[B,C,H,W] and a weight [O,C/groups,K,K].
func conv2d(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !c.positive("channels", l.Channels) || !c.windowed(l, x.Meta.Shape) {
		return x
	}
	groups, stride := max(1, l.Groups), max(1, l.Stride)
	ch := x.Meta.Shape[1]
	if ch%groups != 0 || l.Channels%groups != 0 {
		c.fail("%d groups do not divide %d input and %d output channels: choose a divisor of both", groups, ch, l.Channels)
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

func maxPool(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !c.pooled(l, x.Meta.Shape) {
		return x
	}
	return ops.MaxPool(c.b, x, l.Kernel, l.poolStride(), l.Padding)
}

func avgPool(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !c.pooled(l, x.Meta.Shape) {
		return x
	}
	return ops.AvgPool(c.b, x, l.Kernel, l.poolStride(), l.Padding)
}

// pooled checks the window of a pool against images x.
func (c *context) pooled(l *Layer, x shape.Shape) bool {
	if l.Padding > l.Kernel/2 {
		c.fail("padding %d is more than half of kernel %d: lower padding", l.Padding, l.Kernel)
		return false
	}
	return c.windowed(l, x)
}

func (l *Layer) poolStride() int {
	if l.Stride > 0 {
		return l.Stride
	}
	return l.Kernel
}

// globalAvgPool is [B,C] from [B,C,H,W].
func globalAvgPool(c *context, _ *Layer, x *graph.Value) *graph.Value {
	return ops.Mean(c.b, x, false, 2, 3)
}

func softmax(c *context, _ *Layer, x *graph.Value) *graph.Value { return ops.SoftmaxOf(c.b, x) }

func logSoftmax(c *context, _ *Layer, x *graph.Value) *graph.Value { return ops.LogSoftmaxOf(c.b, x) }

func dropout(c *context, l *Layer, x *graph.Value) *graph.Value { return c.dropout(x, l.Rate) }

// residual is x + body(x).
func residual(c *context, l *Layer, x *graph.Value) *graph.Value {
	if len(l.Body) == 0 {
		c.fail("it has no layers: list at least one")
		return x
	}
	y := c.run(l.Body, c.b.Layer().Block, x)
	if c.b.Err() == nil && !y.Meta.Equal(x.Meta) {
		c.fail("its layers turn %v into %v: they must keep the shape, so that it can be added to the input", x.Meta, y.Meta)
		return x
	}
	return ops.Add(c.b, x, y)
}
