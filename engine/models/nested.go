package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// nestedLayers are the rows of this file in the table of layer types.
var nestedLayers = map[string]layerType{"residual": {numbers, residual}, "concat": {numbers, concat}}

// residual is x + body(x).
func residual(c *context, l *Layer, x *graph.Value) *graph.Value {
	y := c.body(l, x)
	if c.b.Err() == nil && !y.Meta.Equal(x.Meta) {
		c.fail("its layers turn %v into %v: they must keep the shape, so that it can be added to the input", x.Meta, y.Meta)
		return x
	}
	return ops.Add(c.b, x, y)
}

// concat is x and layers(x), joined along an axis (Huang et al., "Densely
// Connected Convolutional Networks", 2017).
func concat(c *context, l *Layer, x *graph.Value) *graph.Value {
	y := c.body(l, x)
	if c.b.Err() != nil {
		return x
	}
	a, b := sample(x), sample(y)
	fits := a.DType == b.DType && a.Shape.Rank() == b.Shape.Rank() && l.Axis < a.Shape.Rank()
	for i := 0; fits && i < a.Shape.Rank(); i++ {
		fits = i == l.Axis || a.Shape[i] == b.Shape[i]
	}
	if !fits {
		c.fail("its layers turn a sample %v into %v: all axes but axis %d must agree", a, b, l.Axis)
		return x
	}
	return ops.ConcatOf(c.b, l.Axis+1, x, y)
}
