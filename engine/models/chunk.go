package models

import (
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// cachedForms are the layer types that mix positions or tell them apart, with their forms
// for generating.
var cachedForms = map[string]func(c *context, l *Layer, x *graph.Value) *graph.Value{
	"attention": cachedAttention, "positional_embedding": cachedPositional,
	"lstm": func(c *context, l *Layer, x *graph.Value) *graph.Value { return cachedRecurrent(c, l, x, lstm) },
	"gru":  func(c *context, l *Layer, x *graph.Value) *graph.Value { return cachedRecurrent(c, l, x, gru) },
}

// builtInPositionwise are the built-in layer types that work on each position alone.
// Those with a body do if its layers do. positionwise has those of a program too, which
// [RegisterLayer] adds.
var (
	builtInPositionwise = merged(setOf("dense", "embedding", "layernorm", "dropout", "softmax", "log_softmax", "affine", "residual"),
		setOf(slices.Collect(maps.Keys(activations))...))
	positionwise = maps.Clone(builtInPositionwise)
)

// setOf maps names to true.
func setOf(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// generated applies the form for generating of a layer.
func (c *context) generated(l *Layer, t layerType, x *graph.Value) *graph.Value {
	switch f := cachedForms[l.Type]; {
	case f != nil:
		return f(c, l, x)
	case positionwise[l.Type]:
		return t.build(c, l, x)
	}
	c.fail("a model with this layer generates no text: it must work on each position alone, or be attention, lstm, gru or positional_embedding")
	return x
}

// chunkExtent is the chunk's extent, an input.
func (c *context) chunkExtent() *graph.Value {
	if c.chunk.extent == nil {
		c.chunk.extent = c.b.Input(ExtentName, shape.I32(1, 2))
	}
	return c.chunk.extent
}

// lastRow is the last row of x[1,T,D] that counts, or x where there is one.
func (c *context) lastRow(x *graph.Value) *graph.Value {
	if s := x.Meta.Shape; s.Rank() != 3 || s[1] == 1 || x.Meta.DType != shape.Float32 {
		return x
	}
	return c.b.One(ops.LastRow{}, x, c.chunkExtent())
}

// narrowed is lastRow between layers.
func (c *context) narrowed(x *graph.Value) *graph.Value {
	if c.b.Err() != nil || c.lastBlock == "" {
		return x
	}
	defer c.b.In(c.endLayer("last_row", c.lastBlock+".last_row"))()
	return c.lastRow(x)
}

// cachedPositional adds the learned row of each position.
func cachedPositional(c *context, l *Layer, x *graph.Value) *graph.Value {
	s := x.Meta.Shape
	if c.chunk.Context > l.Context {
		c.fail("%d positions are to be generated, but its context is %d: generate at most that many", c.chunk.Context, l.Context)
		return x
	}
	table := c.param("weight", []int{l.Context, s[2]}, tableInit(l), "weight", "embedding")
	at := c.b.One(ops.Positions{T: s[1]}, c.chunkExtent())
	return ops.Add(c.b, x, ops.EmbeddingOf(c.b, table, at))
}

// cachedAttention is attention over the cache and the chunk. The chunk's keys and values
// are written into the cache when all is computed.
func cachedAttention(c *context, l *Layer, x *graph.Value) *graph.Value {
	return attended(c, l, x, func(qkv *graph.Value) *graph.Value {
		dims := []int{1, c.chunk.Context, x.Meta.Shape[2]}
		keys := c.variable("cache.keys", dims, graph.Cache, graph.Init{})
		values := c.variable("cache.values", dims, graph.Cache, graph.Init{})
		y := c.b.One(ops.CachedAttention{Heads: l.Heads}, qkv, keys, values, c.chunkExtent())
		defer c.b.InPhase(graph.Update)()
		c.b.Assign(keys, c.b.One(ops.CacheWrite{Part: 1}, keys, qkv, c.chunkExtent()))
		c.b.Assign(values, c.b.One(ops.CacheWrite{Part: 2}, values, qkv, c.chunkExtent()))
		return y
	})
}

// firstAfter is the index of the first of the last layers that surely work on each
// position alone: built-in ones without a cached form, also in their bodies.
func firstAfter(layers []Layer) int {
	for i, l := range slices.Backward(layers) {
		if !builtInPositionwise[l.Type] || firstAfter(l.Body) > 0 {
			return i + 1
		}
	}
	return 0
}
