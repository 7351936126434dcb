package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Residual is x + layers(x).
type Residual struct {
	Layers Stack `yaml:"layers,nested" items:"1" doc:"their output is added to x and has its shape"`
}

// Concat is x and layers(x), joined along an axis (Huang et al., "Densely
// Connected Convolutional Networks", 2017).
type Concat struct {
	Axis   int   `yaml:"axis" min:"0" max:"7" doc:"the axis, from 0"`
	Layers Stack `yaml:"layers,nested" items:"1" doc:"their output is joined to x and has its size on the other axes"`
}

func init() {
	builtIn(LayerType[Concat]{Name: "concat", Doc: "x and layers(x), joined along an axis.", Takes: Numbers})
	builtIn(LayerType[Residual]{Name: "residual", Doc: "x + layers(x).", Takes: Numbers, Positionwise: true})
}

func (l Residual) inside() Stack { return l.Layers }

// Build appends the layer.
func (l Residual) Build(b *Builder, x *graph.Value) *graph.Value {
	y := b.c.body(l.Layers, x)
	if b.Err() == nil && !y.Meta.Equal(x.Meta) {
		b.Failf("its layers turn %v into %v: they must keep the shape, so that it can be added to the input", x.Meta, y.Meta)
		return x
	}
	return ops.Add(b.Builder, x, y)
}

func (l Concat) inside() Stack { return l.Layers }

// padding is kept out where features are joined.
func (l Concat) padding(c *context) string {
	if c.sequence && l.Axis == 0 {
		return "axis 0 counts the positions of sequences of different lengths: join their features (axis: 1)"
	}
	return ""
}

// Build appends the layer.
func (l Concat) Build(b *Builder, x *graph.Value) *graph.Value {
	y := b.c.body(l.Layers, x)
	if b.Err() != nil {
		return x
	}
	have, more := sample(x), sample(y)
	fits := have.DType == more.DType && have.Shape.Rank() == more.Shape.Rank() && l.Axis < have.Shape.Rank()
	for i := 0; fits && i < have.Shape.Rank(); i++ {
		fits = i == l.Axis || have.Shape[i] == more.Shape[i]
	}
	if !fits {
		b.Failf("its layers turn a sample %v into %v: all axes but axis %d must agree", have, more, l.Axis)
		return x
	}
	return ops.ConcatOf(b.Builder, l.Axis+1, x, y)
}
