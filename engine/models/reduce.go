package models

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Sum is the sum over axes of each sample.
type Sum struct {
	Axes []int `yaml:"axes" min:"0" max:"7" items:"1" doc:"the axes, from 0"`
	Keep bool  `yaml:"keep" doc:"keep them, with size 1"`
}

// Mean is the mean over axes of each sample.
type Mean Sum

// Max is the largest over axes of each sample.
type Max Sum

// Affine is scale·x + shift.
type Affine struct {
	Scale float64 `yaml:"scale" doc:"factor"`
	Shift float64 `yaml:"shift" doc:"added after it"`
}

func init() {
	builtIn(LayerType[Sum]{Name: "sum", Doc: "The sum over axes.", Takes: Numbers})
	builtIn(LayerType[Mean]{Name: "mean", Doc: "The mean over axes.", Takes: Numbers})
	builtIn(LayerType[Max]{Name: "max", Doc: "The largest over axes.", Takes: Numbers})
	builtIn(LayerType[Affine]{Name: "affine", Doc: "scale·x + shift.", Takes: Numbers, Positionwise: true, Defaults: Affine{Scale: 1}})
}

// Build appends the layer.
func (l Sum) Build(b *Builder, x *graph.Value) *graph.Value {
	return l.reduce(b.c, x, ops.Sum, func() *graph.Value { return b.c.withoutPadding(x, false, l.Keep) })
}

// Build appends the layer.
func (l Mean) Build(b *Builder, x *graph.Value) *graph.Value {
	return Sum(l).reduce(b.c, x, ops.Mean, func() *graph.Value { return b.c.withoutPadding(x, true, l.Keep) })
}

// Build appends the layer.
func (l Max) Build(b *Builder, x *graph.Value) *graph.Value {
	return Sum(l).reduce(b.c, x, ops.Max, func() *graph.Value { return b.c.largest(x, l.Keep) })
}

// reduce applies a reduction to the axes, or padded where they are positions of which some
// are padding.
func (l Sum) reduce(c *context, x *graph.Value, of func(b *graph.Builder, x *graph.Value, keep bool, axes ...int) *graph.Value, padded func() *graph.Value) *graph.Value {
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
	if c.overPositions(axes) {
		return padded()
	}
	return of(c.b, x, l.Keep, axes...)
}

// padding refuses to reduce positions and other axes at once.
func (l Sum) padding(c *context) string {
	if c.sequence && len(l.Axes) > 1 && slices.Contains(l.Axes, 0) {
		return fmt.Sprintf("axes are %v: of sequences of different lengths, reduce the positions, axis 0, in a layer of their own", shape.Shape(l.Axes))
	}
	return ""
}

func (l Mean) padding(c *context) string { return Sum(l).padding(c) }

func (l Max) padding(c *context) string { return Sum(l).padding(c) }

// Build appends the layer.
func (l Affine) Build(b *Builder, x *graph.Value) *graph.Value {
	return b.One(ops.Affine{Scale: l.Scale, Shift: l.Shift}, x)
}
