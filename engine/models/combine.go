package models

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// reduction is a layer that sums, averages or takes the largest over axes of
// each sample.
func reduction(reduce func(b *graph.Builder, x *graph.Value, keep bool, axes ...int) *graph.Value) func(*context, *Layer, *graph.Value) *graph.Value {
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
		return reduce(c.b, x, l.Keep, axes...)
	}
}

// affine is scale·x + shift.
func affine(c *context, l *Layer, x *graph.Value) *graph.Value {
	return c.b.One(ops.Affine{Scale: l.Scale, Shift: l.Shift}, x)
}

// broadcast repeats each sample along axes of 1, or along new ones in front.
func broadcast(c *context, l *Layer, x *graph.Value) *graph.Value {
	have, want := sample(x), shape.Shape(l.Shape)
	to, err := shape.Broadcast(have.Shape, want)
	if err != nil || !to.Equal(want) {
		c.fail("a sample is %v, which does not stretch to %v: only axes of 1, and new ones in front, do", have, want)
		return x
	}
	s := []int{x.Meta.Shape[0]}
	for range want.Rank() - have.Shape.Rank() {
		s = append(s, 1)
	}
	return ops.Broadcast(c.b, ops.ReshapeTo(c.b, x, append(s, have.Shape...)...), append(shape.Of(s[0]), want...))
}

// concat is x and layers(x) side by side along an axis (Huang et al., "Densely
// Connected Convolutional Networks", 2017).
func concat(c *context, l *Layer, x *graph.Value) *graph.Value {
	if len(l.Body) == 0 {
		c.fail("it has no layers: list at least one")
		return x
	}
	y := c.run(l.Body, c.b.Layer().Block, x)
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
