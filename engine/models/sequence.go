package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// sequenceLayers are the rows of this file in the table of layer types.
var sequenceLayers = map[string]layerType{
	"embedding": {tokens, embedding}, "positional_embedding": {sequence, positional}, "attention": {sequence, attention},
}

// embedding looks rows up: [B,T,D] from tokens [B,T] and a table [V,D].
func embedding(c *context, l *Layer, x *graph.Value) *graph.Value {
	if !c.positive("vocab", l.Vocab) || !c.positive("width", l.Width) {
		return x
	}
	if (x.Kind == graph.Input || x == c.unpadded) && l.Vocab < c.spec.Tokens {
		c.fail("its table has %d rows, but the data has %d tokens: set vocab to %d, or leave it out", l.Vocab, c.spec.Tokens, c.spec.Tokens)
		return x
	}
	table := c.param("weight", []int{l.Vocab, l.Width}, tableInit(l), "weight", "embedding")
	return ops.EmbeddingOf(c.b, table, x)
}

// tableInit is the first contents of a table of rows.
func tableInit(l *Layer) graph.Init {
	if l.Std > 0 {
		return graph.Init{Kind: graph.Normal, A: l.Std}
	}
	return graph.Init{Kind: graph.Normal, A: 1}
}

// positional adds a learned row to each position: x[B,T,D] + table[:T].
func positional(c *context, l *Layer, x *graph.Value) *graph.Value {
	s := x.Meta.Shape
	if s[1] > l.Context {
		c.fail("its input has %d positions, but its context is %d: raise context or shorten the samples", s[1], l.Context)
		return x
	}
	table := c.param("weight", []int{l.Context, s[2]}, tableInit(l), "weight", "embedding")
	if s[1] < l.Context || c.lengths != nil { // graphs of all sizes have the same nodes
		table = ops.SliceOf(c.b, table, []int{0, 0}, []int{s[1], s[2]})
	}
	return ops.Add(c.b, x, table)
}

// attention is causal multi-head self-attention over x[B,T,D] with the
// projections c_attn [D,3D] and c_proj [D,D], named and laid out as GPT-2's
// (Vaswani et al., "Attention Is All You Need", 2017, §3.2; Radford et al.,
// 2019).
func attention(c *context, l *Layer, x *graph.Value) *graph.Value {
	return attended(c, l, x, func(qkv *graph.Value) *graph.Value {
		op := ops.CausalSelfAttention{Heads: l.Heads}
		in := []*graph.Value{qkv}
		if c.training && l.Rate > 0 {
			op.P, op.Seed, op.ID = l.Rate, c.spec.Seed, randomID(c.b.Layer().Name)
			in = append(in, c.step, sampleBase(c))
		}
		return c.b.One(op, in...)
	})
}

// attended is attention with its inner part, from queries, keys and values [B,T,3D] to
// [B,T,D].
func attended(c *context, l *Layer, x *graph.Value, inner func(qkv *graph.Value) *graph.Value) *graph.Value {
	s := x.Meta.Shape
	if l.Heads < 1 || s[2]%l.Heads != 0 {
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
	w := c.param(name+".weight", []int{in, out}, wInit, "weight")
	y := c.matmul(x, w, false)
	return ops.Add(c.b, y, c.param(name+".bias", []int{out}, bInit, "bias"))
}
