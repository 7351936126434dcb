package models

import (
	"errors"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// Flatten is [B,N] from [B,…].
type Flatten struct{}

// Reshape gives each sample another shape.
type Reshape struct {
	Shape []int `yaml:"shape" min:"-1" items:"1" doc:"of a sample; one axis may be -1, and is then computed"`
}

// Transpose reorders the axes of each sample.
type Transpose struct {
	Perm []int `yaml:"perm" min:"0" max:"7" items:"1" doc:"the old axis at each new position"`
}

// Slice cuts [start, stop) out of every axis of each sample.
type Slice struct {
	Start []int `yaml:"start" min:"0" items:"1" doc:"first index, for each axis"`
	Stop  []int `yaml:"stop" min:"1" items:"1" doc:"index after the last, for each axis"`
}

// Broadcast repeats each sample along axes of 1, or along new ones in front.
type Broadcast struct {
	Shape []int `yaml:"shape" min:"1" items:"1" doc:"of a sample"`
}

func init() {
	builtIn(LayerType[Flatten]{Name: "flatten", Doc: "All axes into one.", Takes: Anything, Moves: true})
	builtIn(LayerType[Reshape]{Name: "reshape", Doc: "The same numbers in another shape.", Takes: Anything, Moves: true})
	builtIn(LayerType[Transpose]{Name: "transpose", Doc: "Axes in another order.", Takes: Anything, Moves: true})
	builtIn(LayerType[Slice]{Name: "slice", Doc: "A range of each axis.", Takes: Anything, Moves: true})
	builtIn(LayerType[Broadcast]{Name: "broadcast", Doc: "The sample, repeated along axes of size 1 and along new axes in front.", Takes: Anything})
}

// Build appends the layer.
func (Flatten) Build(b *Builder, x *graph.Value) *graph.Value {
	return ops.ReshapeTo(b.Builder, x, x.Meta.Shape[0], sample(x).Elems())
}

// Build appends the layer.
func (l Reshape) Build(b *Builder, x *graph.Value) *graph.Value {
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
		b.Failf("a sample is %v, %d numbers, which do not fill shape %v: change shape, in which one axis may be -1", have, have.Elems(), shape.Shape(l.Shape))
		return x
	}
	return ops.ReshapeTo(b.Builder, x, append([]int{x.Meta.Shape[0]}, l.Shape...)...)
}

// Build appends the layer.
func (l Transpose) Build(b *Builder, x *graph.Value) *graph.Value {
	have := sample(x)
	sorted := slices.Sorted(slices.Values(l.Perm))
	fits := len(sorted) == have.Shape.Rank()
	perm := []int{0}
	for i, p := range l.Perm {
		fits = fits && sorted[i] == i
		perm = append(perm, p+1)
	}
	if !fits {
		b.Failf("a sample is %v, perm is %v: name each of its %d axes once, from 0", have, shape.Shape(l.Perm), have.Shape.Rank())
		return x
	}
	return ops.TransposeTo(b.Builder, x, perm...)
}

// Check refuses ranges without an index.
func (l Slice) Check() error {
	if len(l.Start) != len(l.Stop) {
		return registry.Refuse("stop", "stop has %s and start has %s; give one for each axis in both", units.Count(len(l.Stop), "number"), units.Count(len(l.Start), "number"))
	}
	var empty []error
	for i := range l.Start {
		if l.Start[i] >= l.Stop[i] {
			empty = append(empty, registry.Refuse("stop", "axis %d would be empty: it starts at %d and stops at %d; raise stop", i, l.Start[i], l.Stop[i]))
		}
	}
	return errors.Join(empty...)
}

// Build appends the layer.
func (l Slice) Build(b *Builder, x *graph.Value) *graph.Value {
	have := sample(x)
	rank := have.Shape.Rank()
	if len(l.Start) != rank {
		b.Failf("a sample is %v, start is %v and stop %v: give one number for each of its %d axes", have, shape.Shape(l.Start), shape.Shape(l.Stop), rank)
		return x
	}
	for i, n := range have.Shape {
		if l.Start[i] < 0 || l.Stop[i] > n {
			b.Failf("a sample is %v, start is %d and stop %d for axis %d: expected 0 <= start < stop <= %d", have, l.Start[i], l.Stop[i], i, n)
			return x
		}
	}
	return ops.SliceOf(b.Builder, x, append([]int{0}, l.Start...), append([]int{x.Meta.Shape[0]}, l.Stop...))
}

// Build appends the layer.
func (l Broadcast) Build(b *Builder, x *graph.Value) *graph.Value {
	have, want := sample(x), shape.Shape(l.Shape)
	to, err := shape.Broadcast(have.Shape, want)
	if err != nil || !to.Equal(want) {
		b.Failf("a sample is %v, which does not stretch to %v: only axes of 1, and new ones in front, do", have, want)
		return x
	}
	s := []int{x.Meta.Shape[0]}
	for range want.Rank() - have.Shape.Rank() {
		s = append(s, 1)
	}
	return ops.Broadcast(b.Builder, ops.ReshapeTo(b.Builder, x, append(s, have.Shape...)...), append(shape.Of(s[0]), want...))
}
