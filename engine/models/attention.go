package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Attention is causal multi-head self-attention over x[B,T,D] with the
// projections c_attn [D,3D] and c_proj [D,D], named and laid out as GPT-2's
// (Vaswani et al., "Attention Is All You Need", 2017, §3.2; Radford et al.,
// 2019).
type Attention struct {
	Heads int     `yaml:"heads" min:"1" doc:"attention heads; must divide the width"`
	Rate  float64 `yaml:"rate" min:"0" below:"1" doc:"probability that a number is dropped in training"`

	// What a published model has, and no config says.
	Std         float64 `yaml:"-"` // deviation of normal initial weights, with zero biases; 0: as PyTorch
	ResidualStd float64 `yaml:"-"` // Std of the output projection; 0: Std
}

func init() {
	builtIn(LayerType[Attention]{Name: "attention", Doc: "Causal self-attention with its projections `c_attn` and `c_proj`.", Takes: Sequences})
}

// Build appends the layer.
func (l Attention) Build(b *Builder, x *graph.Value) *graph.Value {
	c := b.c
	return l.around(c, x, func(qkv *graph.Value) *graph.Value {
		op := ops.Attention{Heads: l.Heads, Packed: c.positions != nil, BF16: c.spec.BF16}
		in := []*graph.Value{qkv}
		if op.Packed {
			in = append(in, c.positions)
		}
		if c.training && l.Rate > 0 {
			op.P, op.Seed, op.ID = l.Rate, c.spec.Seed, randomID(c.b.Layer().Name)
			in = append(in, c.step, sampleBase(c))
		}
		return c.b.One(op, in...)
	})
}

// cached is attention over the cache and the chunk. The chunk's keys and values
// are written into the cache when all is computed.
func (l Attention) cached(c *context, x *graph.Value) *graph.Value {
	return l.around(c, x, func(qkv *graph.Value) *graph.Value {
		return c.attendCached(ops.CachedAttention{Heads: l.Heads}, qkv, []int{c.chunk.Places, c.chunk.Context, x.Meta.Shape[2]})
	})
}

// attendCached is attention over the chunk and the layer's caches of those dimensions, into
// which the chunk's keys and values then go.
func (c *context) attendCached(op ops.CachedAttention, qkv *graph.Value, dims []int) *graph.Value {
	op.BF16 = c.spec.BF16
	keys := c.variable("cache.keys", dims, graph.Cache, graph.Init{})
	values := c.variable("cache.values", dims, graph.Cache, graph.Init{})
	y := c.b.One(op, qkv, keys, values, c.chunkExtent())
	defer c.b.InPhase(graph.Update)()
	c.b.Assign(keys, c.b.One(ops.CacheWrite{Part: 1, BF16: op.BF16}, keys, qkv, c.chunkExtent()))
	c.b.Assign(values, c.b.One(ops.CacheWrite{Part: 2, BF16: op.BF16}, values, qkv, c.chunkExtent()))
	return y
}

// around is attention around its inner part, from queries, keys and values [B,T,3D] to
// [B,T,D].
func (l Attention) around(c *context, x *graph.Value, inner func(qkv *graph.Value) *graph.Value) *graph.Value {
	s := x.Meta.Shape
	if s[2]%l.Heads != 0 {
		c.fail("%d heads do not divide a width of %d: use a divisor", l.Heads, s[2])
		return x
	}
	qkv := projection(c, "c_attn", x, s[2], 3*s[2], l.Std)
	std := l.ResidualStd
	if std == 0 {
		std = l.Std
	}
	return projection(c, "c_proj", inner(qkv), s[2], s[2], std)
}

// projection is x·W + b with W [in,out], as GPT-2 publishes it.
func projection(c *context, name string, x *graph.Value, in, out int, std float64) *graph.Value {
	wInit, bInit := kaiming(in), kaiming(in)
	if std > 0 {
		wInit, bInit = graph.Init{Kind: graph.Normal, A: std}, graph.Init{}
	}
	w := c.matrix(name+".weight", []int{in, out}, wInit, "weight")
	y := c.adapted(name+".", x, c.matmul(x, w, false), true)
	return ops.Add(c.b, y, c.param(name+".bias", []int{out}, bInit, "bias"))
}
