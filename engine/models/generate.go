package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Generate builds the graph that reads a chunk of each of some texts, keeps the keys and values
// of its attention in caches, and samples the tokens after them. Graphs for chunks of several
// sizes share parameters and caches by name.
//
// Layers that mix positions have a form that reads the caches; layers that work on each
// position alone are as ever; others are refused. Behind the last layer that mixes
// positions, only the row of a text's last token goes on.
func Generate(s Spec, z GenerateSize) (*graph.Graph, error) {
	s, z.Texts, z.Places = s.whole(), max(1, z.Texts), max(1, z.Places)
	s.Input.Shape, s.Lengths = shape.Of(z.Rows), false
	c := newContext("generate", s, 1, z.Texts)
	c.b.Stop(z.Stop)
	c.chunk = &chunk{GenerateSize: z}
	logits := c.forward()
	c.sampled(logits)
	return c.graph()
}

// Positions is the most positions that the model tells apart: the least context of its
// positional embeddings and attention. 0 means that there is no limit.
func (s Spec) Positions() (least int) {
	s.Layers.Each(func(n Named) {
		if p, ok := n.Layer.(interface{ rows(Spec) int }); ok {
			if rows := p.rows(s.whole()); rows > 0 && (least == 0 || rows < least) {
				least = rows
			}
		}
	})
	return least
}

// SampleLayer is the type of the layer that draws the next token from what the model gives for it.
const SampleLayer = "sample"

// sampled appends the choice of a token for each text.
func (c *context) sampled(logits *graph.Value) {
	if c.b.Err() != nil {
		return
	}
	defer c.b.In(c.endLayer(SampleLayer, GenerateToken))()
	logits = c.lastRow(logits)
	s := logits.Meta.Shape
	if logits.Meta.DType != shape.Float32 || s.Rank() != 3 || s[1] != 1 || s[2] < max(1, c.spec.Tokens) {
		c.fail("the model's output for each token is %v: to generate text, its last layer must give one number for each of the %d tokens", sample(logits), c.spec.Tokens)
		return
	}
	at := c.b.Input(SampleAtName, shape.I32(s[0]))
	shaping := c.b.Input(ShapingName, shape.F32(s[0], 2))
	choice := c.b.Input(ChoiceName, shape.I32(s[0], 3))
	c.b.Output(GenerateToken, c.b.One(ops.Sample{Tokens: c.spec.Tokens}, c.penalized(logits), at, shaping, choice))
	if c.chunk.Logits {
		c.b.Output(GenerateLogits, logits)
	}
}

// penalized are the logits with the penalty for tokens that their text has.
func (c *context) penalized(logits *graph.Value) *graph.Value {
	seen := c.b.Var(SeenName, shape.I32(c.chunk.Places, logits.Meta.Shape[2]), graph.Cache, graph.Init{})
	penalty := c.b.Input(PenaltyName, shape.F32(c.microbatch))
	out := c.b.One(ops.RepetitionPenalty{}, logits, seen, c.chunk.tokens, c.chunkExtent(), penalty)
	defer c.b.InPhase(graph.Update)()
	c.b.Assign(seen, c.b.One(ops.SeenWrite{}, seen, c.chunk.tokens, c.chunkExtent()))
	return out
}
