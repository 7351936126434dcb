package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// GroupedAttention is self-attention over x[B,T,D] with rotary positions, in which heads of
// queries share heads of keys and values: see [ops.Attention] and [ops.Rotary]. Its
// projections q_proj, k_proj, v_proj and o_proj have weights [out,in], named and laid out as
// Llama's (Touvron et al., "LLaMA", 2023).
type GroupedAttention struct {
	Heads   int     `yaml:"heads" min:"1" doc:"heads of queries; must divide the width if size is 0"`
	KVHeads int     `yaml:"kv_heads" min:"0" doc:"heads of keys and values; must divide heads. 0: as many"`
	Size    int     `yaml:"size" min:"0" doc:"numbers of a head; 0: the width by heads"`
	Window  int     `yaml:"window" min:"0" doc:"positions that one sees on a side, itself among them; 0: all"`
	Full    bool    `yaml:"full" doc:"positions see later ones, too"`
	Base    float64 `yaml:"base" min:"0" doc:"of the frequencies by which queries and keys turn with their positions; 0: they do not turn"`
	Bias    bool    `yaml:"bias" doc:"add a learned number to each query, key and value"`
	Rate    float64 `yaml:"rate" min:"0" below:"1" doc:"probability that a number is dropped in training"`

	// What a published model has, and no config of layers says.
	Scaling ops.RotaryScaling `yaml:"-"`
	Context int               `yaml:"-"` // the most positions; 0: no limit
	OutBias bool              `yaml:"-"` // o_proj has a bias
	Std     float64           `yaml:"-"` // deviation of normal initial weights, with zero biases; 0: as PyTorch
}

func init() {
	builtIn(LayerType[GroupedAttention]{Name: "grouped_attention", Takes: Sequences, Defaults: GroupedAttention{Base: 10000},
		Doc: "Self-attention with rotary positions, in which heads share keys and values; its projections are `q_proj`, `k_proj`, `v_proj` and `o_proj`."})
}

// rows is the most positions.
func (l GroupedAttention) rows(Spec) int { return l.Context }

// op is the attention, of checked heads.
func (l GroupedAttention) op(c *context) (ops.Attention, []*graph.Value) {
	op, more := ops.Attention{Heads: l.Heads, KVHeads: l.KVHeads, Full: l.Full, Window: l.Window, BF16: c.spec.BF16}, []*graph.Value(nil)
	if l.Full && c.lengths != nil {
		op.Padded, more = true, append(more, c.lengths)
	}
	if c.positions != nil {
		op.Packed, more = true, append(more, c.positions)
	}
	if c.training && l.Rate > 0 {
		op.P, op.Seed, op.ID = l.Rate, c.spec.Seed, randomID(c.b.Layer().Name)
		more = append(more, c.step, sampleBase(c))
	}
	return op, more
}

// Build appends the layer.
func (l GroupedAttention) Build(b *Builder, x *graph.Value) *graph.Value {
	return l.around(b, x, b.c.positions, func(qkv *graph.Value) *graph.Value {
		op, more := l.op(b.c)
		return b.One(op, append([]*graph.Value{qkv}, more...)...)
	})
}

// cached is attention over the cache and the chunk: see [Attention].
func (l GroupedAttention) cached(c *context, x *graph.Value) *graph.Value {
	if l.Full {
		c.fail("its positions see later ones, so that it cannot generate text: leave full out")
		return x
	}
	if l.Context > 0 && !c.holds(l.Context) {
		return x
	}
	positions := c.b.One(ops.Positions{T: x.Meta.Shape[1]}, c.chunkExtent())
	return l.around(&Builder{c.b, c}, x, positions, func(qkv *graph.Value) *graph.Value {
		op, _ := l.op(c)
		dims := []int{c.chunk.Places, c.chunk.Context, op.Groups() * op.Size(qkv.Meta.Shape[2])}
		return c.attendCached(ops.CachedAttention{Heads: l.Heads, KVHeads: l.KVHeads, Window: l.Window}, qkv, dims)
	})
}

// around is attention around its inner part, from queries, keys and values side by side to
// the values that queries see.
func (l GroupedAttention) around(b *Builder, x, positions *graph.Value, inner func(qkv *graph.Value) *graph.Value) *graph.Value {
	width, t := x.Meta.Shape[2], x.Meta.Shape[1]
	groups := ops.Attention{Heads: l.Heads, KVHeads: l.KVHeads}.Groups()
	size := l.Size
	switch {
	case size == 0 && width%l.Heads != 0:
		b.Failf("%d heads do not divide a width of %d: use a divisor, or give the size of a head", l.Heads, width)
		return x
	case size == 0:
		size = width / l.Heads
	}
	switch {
	case l.Heads%groups != 0:
		b.Failf("%d heads of queries cannot share %d of keys and values: use a divisor", l.Heads, groups)
		return x
	case l.Base > 0 && size%2 != 0:
		b.Failf("heads of %d numbers cannot turn with their positions, which takes pairs: use an even size", size)
		return x
	case l.Context > 0 && t > l.Context:
		b.Failf("its input has %d positions, but its context is %d: raise context or shorten the samples", t, l.Context)
		return x
	}
	project := func(name string, x *graph.Value, units int, bias bool) *graph.Value {
		return Dense{Units: units, NoBias: !bias, Std: l.Std}.under(b, name+".", x)
	}
	qkv := ops.ConcatOf(b.Builder, 2, project("q_proj", x, l.Heads*size, l.Bias), project("k_proj", x, groups*size, l.Bias), project("v_proj", x, groups*size, l.Bias))
	if l.Base > 0 {
		in := []*graph.Value{qkv}
		if positions != nil {
			in = append(in, positions)
		}
		qkv = b.One(ops.Rotary{Size: size, Heads: l.Heads + groups, Base: l.Base, Scaling: l.Scaling}, in...)
	}
	if b.Err() != nil {
		return x
	}
	return project("o_proj", inner(qkv), width, l.OutBias)
}
