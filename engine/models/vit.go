package models

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// ViTOptions are the sizes of a vision transformer.
type ViTOptions struct {
	Patch, Layers, Heads, Width int
	Dropout                     float64
	Outputs                     int
}

// The deviation of a vision transformer's first weights, and what its norms add to the
// variance.
const vitStd, vitEps = 0.02, 1e-6

// ViT is a vision transformer (Dosovitskiy et al., "An Image is Worth 16x16 Words:
// Transformers for Image Recognition at Scale", 2020): patches as tokens behind one of the
// class, learned positions, and blocks whose norms come first. Parameters are named and laid
// out as Hugging Face publishes them, without "vit." before their names. Its blocks, for
// partitioning, are embed, block0, …, head.
func ViT(o ViTOptions, pos graph.Pos) Stack {
	ls := Stack{
		Named{"embeddings", "embed", pos, patchEmbedding{Patch: o.Patch, Width: o.Width}},
		Named{"embeddings.dropout", "embed", pos, Dropout{Rate: o.Dropout}},
	}
	for i := range o.Layers {
		ls = append(ls, vitBlock(o, i, pos)...)
	}
	head := func(name string, l Layer) Named { return Named{name, "head", pos, l} }
	return append(ls, head("class", Slice{Start: []int{0, 0}, Stop: []int{1, o.Width}}), head("flatten", Flatten{}),
		head("layernorm", LayerNorm{Eps: vitEps}), head("classifier", Dense{Units: o.Outputs, Std: vitStd}))
}

// vitBlock is x + attention(norm(x)), then x + mlp(norm(x)).
func vitBlock(o ViTOptions, i int, pos graph.Pos) Stack {
	prefix, block := fmt.Sprintf("encoder.layer.%d.", i), fmt.Sprintf("block%d", i)
	named := func(name string, l Layer) Named { return Named{prefix + name, block, pos, l} }
	return Stack{
		named("attn_residual", Residual{Stack{
			named("layernorm_before", LayerNorm{Eps: vitEps}),
			named("attention", fullAttention{Heads: o.Heads, Std: vitStd}),
			named("attention.dropout", Dropout{Rate: o.Dropout}),
		}}),
		named("mlp_residual", Residual{Stack{
			named("layernorm_after", LayerNorm{Eps: vitEps}),
			named("intermediate.dense", Dense{Units: 4 * o.Width, Activation: "gelu", Std: vitStd}),
			named("output.dense", Dense{Units: o.Width, Std: vitStd}),
			named("output.dropout", Dropout{Rate: o.Dropout}),
		}}),
	}
}

// patchEmbedding is tokens [B,1+N,Width] of images [B,C,H,W]: cls_token, and then the N
// patches of Patch×Patch pixels, row by row, each projected. To each, its learned row of
// position_embeddings is added.
type patchEmbedding struct{ Patch, Width int }

// Build appends the layer.
func (l patchEmbedding) Build(b *Builder, x *graph.Value) *graph.Value {
	if !b.c.accepts(Images, x.Meta) {
		return x
	}
	s := x.Meta.Shape
	if s[2]%l.Patch != 0 || s[3]%l.Patch != 0 || s[2] == 0 || s[3] == 0 {
		b.Failf("images of %dx%d cannot be cut into patches of %dx%[3]d: use a patch that divides both sides, or resize the images", s[2], s[3], l.Patch)
		return x
	}
	init := graph.Init{Kind: graph.Normal, A: vitStd}
	y := b.Stack(x, Named{Name: "patch_embeddings.projection", Layer: Conv2D{Channels: l.Width, Kernel: l.Patch, Stride: l.Patch, Std: vitStd}})
	if b.Err() != nil {
		return x
	}
	patches := s[2] / l.Patch * (s[3] / l.Patch)
	y = ops.TransposeTo(b.Builder, ops.ReshapeTo(b.Builder, y, s[0], l.Width, patches), 0, 2, 1)
	class := b.Param("cls_token", []int{1, 1, l.Width}, init, "weight", "embedding")
	y = ops.ConcatOf(b.Builder, 1, ops.Broadcast(b.Builder, class, []int{s[0], 1, l.Width}), y)
	return ops.Add(b.Builder, y, b.Param("position_embeddings", []int{1, 1 + patches, l.Width}, init, "weight", "embedding"))
}

// fullAttention is self-attention over x[B,T,D] in which each position sees all, with the
// projections attention.query, attention.key, attention.value and output.dense [out,in].
type fullAttention struct {
	Heads int
	Std   float64 // deviation of normal initial weights
}

// Build appends the layer.
func (l fullAttention) Build(b *Builder, x *graph.Value) *graph.Value {
	if !b.c.accepts(Sequences, x.Meta) {
		return x
	}
	width := x.Meta.Shape[2]
	if width%l.Heads != 0 {
		b.Failf("%d heads do not divide a width of %d: use a divisor", l.Heads, width)
		return x
	}
	project := func(name string, x *graph.Value) *graph.Value {
		return Dense{Units: width, Std: l.Std}.under(b, name+".", x)
	}
	qkv := ops.ConcatOf(b.Builder, 2, project("attention.query", x), project("attention.key", x), project("attention.value", x))
	return project("output.dense", b.One(ops.Attention{Heads: l.Heads, Full: true, BF16: b.c.spec.BF16}, qkv))
}
