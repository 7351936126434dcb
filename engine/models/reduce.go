package models

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// reduceLayers are the rows of this file in the table of layer types.
var reduceLayers = map[string]layerType{
	"sum": {numbers, reduction("sum", ops.Sum)}, "mean": {numbers, reduction("mean", ops.Mean)}, "max": {numbers, reduction("max", ops.Max)},
	"affine": {numbers, affine},
}

// reduction is a layer that sums, averages or takes the largest over axes of
// each sample.
func reduction(name string, reduce func(b *graph.Builder, x *graph.Value, keep bool, axes ...int) *graph.Value) func(*context, *Layer, *graph.Value) *graph.Value {
	return func(c *context, l *Layer, x *graph.Value) *graph.Value {
		have := sample(x)
		var axes []int
		for i, a := range slices.Sorted(slices.Values(l.Axes)) {
			if a < 0 || a >= have.Shape.Rank() || i > 0 && axes[i-1] == a+1 {
				c.fail("a sample is %v, axes are %v: name axes of it once, from 0", have, shape.Shape(l.Axes))
				return x
			}
			axes = append(axes, a+1)
		}
		if len(axes) == 0 {
			c.fail("axes is empty: name at least one axis of a sample, from 0")
			return x
		}
		switch over := c.overPositions(axes); {
		case over && name == "max":
			return c.largest(x, l.Keep)
		case over:
			return c.withoutPadding(x, name == "mean", l.Keep)
		}
		return reduce(c.b, x, l.Keep, axes...)
	}
}

// affine is scale·x + shift.
func affine(c *context, l *Layer, x *graph.Value) *graph.Value {
	return c.b.One(ops.Affine{Scale: l.Scale, Shift: l.Shift}, x)
}
