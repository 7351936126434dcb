package models

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// movementLayers are the rows of this file in the table of layer types.
var movementLayers = map[string]layerType{
	"flatten": {anything, flatten}, "reshape": {anything, reshape}, "transpose": {anything, transpose},
	"slice": {anything, slice}, "broadcast": {anything, broadcast},
}

// flatten is [B,N] from [B,…].
func flatten(c *context, _ *Layer, x *graph.Value) *graph.Value {
	return ops.ReshapeTo(c.b, x, x.Meta.Shape[0], sample(x).Elems())
}

// reshape gives each sample another shape.
func reshape(c *context, l *Layer, x *graph.Value) *graph.Value {
	have := sample(x)
	size, free := 1, 0
	for _, d := range l.Shape {
		if d == -1 {
			free++
			continue
		}
		size *= d
	}
	fits := size == have.Elems()
	if free > 0 {
		fits = free == 1 && size > 0 && have.Elems()%size == 0
	}
	if !fits {
		c.fail("a sample is %v, %d numbers, which do not fill shape %v: change shape, in which one axis may be -1", have, have.Elems(), shape.Shape(l.Shape))
		return x
	}
	return ops.ReshapeTo(c.b, x, append([]int{x.Meta.Shape[0]}, l.Shape...)...)
}

// transpose reorders the axes of each sample.
func transpose(c *context, l *Layer, x *graph.Value) *graph.Value {
	have := sample(x)
	sorted := slices.Sorted(slices.Values(l.Perm))
	fits := len(sorted) == have.Shape.Rank()
	perm := []int{0}
	for i, p := range l.Perm {
		fits = fits && sorted[i] == i
		perm = append(perm, p+1)
	}
	if !fits {
		c.fail("a sample is %v, perm is %v: name each of its %d axes once, from 0", have, shape.Shape(l.Perm), have.Shape.Rank())
		return x
	}
	return ops.TransposeTo(c.b, x, perm...)
}

// slice cuts [start, stop) out of every axis of each sample.
func slice(c *context, l *Layer, x *graph.Value) *graph.Value {
	have := sample(x)
	rank := have.Shape.Rank()
	if len(l.Start) != rank || len(l.Stop) != rank {
		c.fail("a sample is %v, start is %v and stop %v: give one number for each of its %d axes", have, shape.Shape(l.Start), shape.Shape(l.Stop), rank)
		return x
	}
	for i, n := range have.Shape {
		if l.Start[i] < 0 || l.Start[i] >= l.Stop[i] || l.Stop[i] > n {
			c.fail("a sample is %v, start is %d and stop %d for axis %d: expected 0 <= start < stop <= %d", have, l.Start[i], l.Stop[i], i, n)
			return x
		}
	}
	return ops.SliceOf(c.b, x, append([]int{0}, l.Start...), append([]int{x.Meta.Shape[0]}, l.Stop...))
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
