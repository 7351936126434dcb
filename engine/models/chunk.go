package models

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// cached is a layer that mixes positions or tells them apart, but reads no later ones: it
// has a form for generating.
type cached interface {
	cached(c *context, x *graph.Value) *graph.Value
}

// generated applies the form for generating of a layer.
func (c *context) generated(t *layerType, l Layer, x *graph.Value) *graph.Value {
	if f, ok := l.(cached); ok {
		return f.cached(c, x)
	}
	if t.positionwise {
		return c.built(t, l, x)
	}
	c.fail("a model with this layer cannot generate text: use only layers that work on each position alone, and attention, grouped_attention, lstm, gru or positional_embedding")
	return x
}

// chunkExtent is the extents of the chunk's sequences, an input.
func (c *context) chunkExtent() *graph.Value {
	if c.chunk.extent == nil {
		c.chunk.extent = c.b.Input(ExtentName, shape.I32(c.microbatch, 3))
	}
	return c.chunk.extent
}

// lastRow is the last row of each sequence of x[B,T,D] that counts, or x where there is one.
func (c *context) lastRow(x *graph.Value) *graph.Value {
	if s := x.Meta.Shape; s.Rank() != 3 || s[1] == 1 || x.Meta.DType != shape.Float32 {
		return x
	}
	return c.b.One(ops.LastRow{}, x, c.chunkExtent())
}

// narrowed is lastRow as a layer of its own, behind the newest layer.
func (c *context) narrowed(x *graph.Value) *graph.Value {
	if c.b.Err() != nil || c.lastBlock == "" {
		return x
	}
	defer c.b.In(c.endLayer("last_row", c.lastBlock+".last_row"))()
	return c.lastRow(x)
}

// firstAfter is the index of the first of the last layers that surely work on each
// position alone: built-in ones without a form for generating, also in their bodies.
func firstAfter(layers Stack) int {
	for i, l := range slices.Backward(layers) {
		x := placed(l).Layer
		t := typeOf(x)
		if _, mixes := x.(cached); mixes || !t.ours || !t.positionwise || firstAfter(inside(x)) > 0 {
			return i + 1
		}
	}
	return 0
}
