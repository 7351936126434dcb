package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Embedding looks rows up: [B,T,D] from tokens [B,T] and a table [V,D].
type Embedding struct {
	Vocab int `yaml:"vocab" min:"0" doc:"rows; 0: as the data needs"`
	Width int `yaml:"width" min:"1" doc:"numbers in a row"`

	Std float64 `yaml:"-"` // deviation of the initial numbers; 0: 1
}

// PositionalEmbedding adds a learned row to each position: x[B,T,D] + table[:T].
type PositionalEmbedding struct {
	Context int `yaml:"context" min:"0" doc:"rows; 0: as the data needs"`

	Std float64 `yaml:"-"` // deviation of the initial numbers; 0: 1
}

func init() {
	builtIn(LayerType[Embedding]{Name: "embedding", Doc: "A learned row for each token.", Takes: Tokens, Positionwise: true})
	builtIn(LayerType[PositionalEmbedding]{Name: "positional_embedding", Doc: "Adds a learned row for each position.", Takes: Sequences})
}

// Build appends the layer.
func (l Embedding) Build(b *Builder, x *graph.Value) *graph.Value {
	c := b.c
	if l.Vocab == 0 {
		l.Vocab = c.spec.Tokens
	}
	if l.Vocab == 0 {
		b.Failf("vocab is 0: give it a whole number of at least 1")
		return x
	}
	if (x.Kind == graph.Input || x == c.unpadded) && l.Vocab < c.spec.Tokens {
		b.Failf("its table has %d rows, but the data has %d tokens: set vocab to %d, or leave it out", l.Vocab, c.spec.Tokens, c.spec.Tokens)
		return x
	}
	table := c.matrix("weight", []int{l.Vocab, l.Width}, tableInit(l.Std), "weight", "embedding")
	return ops.EmbeddingOf(b.Builder, table, x)
}

// tableInit is the first contents of a table of rows.
func tableInit(std float64) graph.Init {
	if std > 0 {
		return graph.Init{Kind: graph.Normal, A: std}
	}
	return graph.Init{Kind: graph.Normal, A: 1}
}

// rows is the number of positions that the table has.
func (l PositionalEmbedding) rows(s Spec) int {
	if l.Context > 0 {
		return l.Context
	}
	return s.longest
}

// Build appends the layer.
func (l PositionalEmbedding) Build(b *Builder, x *graph.Value) *graph.Value {
	c, s, rows := b.c, x.Meta.Shape, l.rows(b.c.spec)
	if s[1] > rows {
		b.Failf("its input has %d positions, but its context is %d: raise context or shorten the samples", s[1], rows)
		return x
	}
	table := b.Param("weight", []int{rows, s[2]}, tableInit(l.Std), "weight", "embedding")
	if c.positions != nil {
		return ops.Add(b.Builder, x, ops.EmbeddingOf(b.Builder, table, c.positions))
	}
	if s[1] < rows || c.lengths != nil { // graphs of all sizes have the same nodes
		table = ops.SliceOf(b.Builder, table, []int{0, 0}, []int{s[1], s[2]})
	}
	return ops.Add(b.Builder, x, table)
}

// holds refuses to generate more positions than a layer tells apart.
func (c *context) holds(positions int) bool {
	if c.chunk.Context > positions {
		c.fail("%d positions are to be generated, but its context is %d: generate at most that many", c.chunk.Context, positions)
		return false
	}
	return true
}

// cached adds the learned row of each position of a chunk.
func (l PositionalEmbedding) cached(c *context, x *graph.Value) *graph.Value {
	s, rows := x.Meta.Shape, l.rows(c.spec)
	if !c.holds(rows) {
		return x
	}
	table := c.param("weight", []int{rows, s[2]}, tableInit(l.Std), "weight", "embedding")
	at := c.b.One(ops.Positions{T: s[1]}, c.chunkExtent())
	return ops.Add(c.b, x, ops.EmbeddingOf(c.b, table, at))
}
