package models

import (
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Sequences with lengths are padded at their end. Three rules keep padding out:
//
//   - The first op writes zeros over it, so its bytes are never read.
//   - A position sees itself and those before it alone: only layers for which that holds,
//     and sums and means that leave padding out, are let in.
//   - The target of padding is -1, which counts nothing, or the number that the model gives
//     there, and the loss is divided by the positions that count.

// sized returns the spec for sequences padded to that many positions. 0 keeps the spec.
func (s Spec) sized(positions int) Spec {
	if !s.Lengths || positions == 0 {
		return s
	}
	s = s.whole()
	if s.PerPosition() {
		s.Target.Shape = resized(s.Target.Shape, positions)
	}
	s.Input.Shape = resized(s.Input.Shape, positions)
	return s
}

// whole is the spec that keeps the positions of its Input.
func (s Spec) whole() Spec {
	if s.longest == 0 && s.Input.Shape.Rank() > 0 {
		s.longest = s.Input.Shape[0]
	}
	return s
}

// resized is a shape with another first axis.
func resized(s shape.Shape, n int) shape.Shape {
	s = slices.Clone(s)
	s[0] = n
	return s
}

// PerPosition reports whether sequences with lengths have an answer for each position. The
// first axis of their targets counts them.
func (s Spec) PerPosition() bool {
	rank := s.Target.Shape.Rank()
	return s.Lengths && (rank > 1 || rank == 1 && s.Target.DType == shape.Int32)
}

// padded declares the lengths of x[B,T,…], and writes zeros over its padding.
func (c *context) padded(x *graph.Value) *graph.Value {
	if !c.spec.Lengths || c.b.Err() != nil {
		return x
	}
	defer c.b.In(c.firstLayer("lengths"))()
	in := c.spec.Input
	tokens, numbers := in.DType == shape.Int32 && in.Shape.Rank() == 1, in.DType == shape.Float32 && in.Shape.Rank() > 1
	if !tokens && !numbers {
		c.fail("its samples are %v, but samples of different lengths must be sequences of tokens, i32[positions], or of numbers, f32[positions, features]", in)
		return x
	}
	c.lengths = c.b.Input(LengthName, shape.I32(c.microbatch))
	c.sequence = true
	if c.spec.Packed {
		c.positions = c.b.Input(PositionName, shape.I32(c.microbatch, in.Shape[0]))
	}
	if tokens {
		c.unpadded = c.b.One(ops.PadWith{}, x, c.lengths)
	} else {
		c.unpadded = c.whereCounts(x)
	}
	return c.unpadded
}

// weights are 1 for the positions of x[B,T,…] that count and 0 for padding, [B,T,1,…]; with
// mean, 1/length in place of 1.
func (c *context) weights(x *graph.Value, mean bool) *graph.Value {
	weights := c.b.One(ops.PositionWeights{T: x.Meta.Shape[1], Mean: mean}, c.lengths)
	if rank := x.Meta.Shape.Rank(); rank != 3 {
		dims := []int{x.Meta.Shape[0], x.Meta.Shape[1]}
		for range rank - 2 {
			dims = append(dims, 1)
		}
		weights = ops.ReshapeTo(c.b, weights, dims...)
	}
	return weights
}

// whereCounts is x[B,T,…] with 0 in place of padding, also where that holds NaN.
func (c *context) whereCounts(x *graph.Value) *graph.Value {
	return ops.SelectOf(c.b, c.weights(x, false), x, ops.Const(c.b, shape.F32(), 0))
}

// firstLayer stands in errors and plans for nodes before the first layer. It belongs to
// that layer's block.
func (c *context) firstLayer(name string) *graph.Layer {
	if len(c.spec.Layers) == 0 {
		return nil
	}
	l := placed(c.spec.Layers[0])
	ref := &graph.Layer{Type: name, Name: name, Block: l.Block, Pos: l.Pos}
	switch {
	case ref.Block == "" && l.Name != "":
		ref.Block = l.Name
	case ref.Block == "":
		ref.Block = l.Type() + "0"
	}
	return ref
}

// aware is a layer that knows whether it keeps padding out. If it does not, its error text
// says why and what to do; "" means that it does.
type aware interface{ padding(c *context) string }

// packed is a layer that keeps apart the sequences that share a sample, and reads no later
// position.
type packed interface{ keepsApart() bool }

func (Attention) keepsApart() bool           { return true }
func (PositionalEmbedding) keepsApart() bool { return true }
func (l GroupedAttention) keepsApart() bool  { return !l.Full }

// seesNoPadding refuses a layer that would mix padding into positions that count.
func (c *context) seesNoPadding(t *layerType, l Layer) bool {
	if c.lengths == nil {
		return true
	}
	const mixes = "it would mix the padding of sequences of different lengths (data.buckets) with the rest: such samples take layers that work on each position alone, attention, grouped_attention, lstm, gru, positional_embedding, concat of features, and sum, mean or max over axes [0]"
	text := ""
	apart, mayBe := l.(packed)
	switch x := l.(type) {
	case aware:
		text = x.padding(c)
	case cached: // it reads no later position
	default:
		if c.sequence && !t.positionwise {
			text = mixes
		}
	}
	if c.positions != nil && !t.positionwise && !(mayBe && apart.keepsApart()) {
		text = "it would mix the conversations that share a sample: these take layers that work on each position alone, attention, grouped_attention and positional_embedding"
	}
	if text != "" {
		c.fail("%s", text)
	}
	return text == ""
}

// keepsWidth refuses a layer whose output y[B,T] has positions as its last axis: the next
// layer, such as dense, would mix them.
func (c *context) keepsWidth(y *graph.Value) {
	if c.lengths == nil || !c.sequence || c.b.Err() != nil || y == c.unpadded || y.Meta.Shape.Rank() != 2 {
		return
	}
	c.fail("its output %v has one number for each position, and the next layer would mix padding with the other positions: keep the reduced axis with size 1 (keep: true)", sample(y))
}

// overPositions reports whether a reduction of the axes of x is over positions of which
// some are padding.
func (c *context) overPositions(axes []int) bool {
	return c.lengths != nil && c.sequence && len(axes) == 1 && axes[0] == 1
}

// largest is the largest of x[B,T,…] over its positions; of a sequence without any, 0.
func (c *context) largest(x *graph.Value, keep bool) *graph.Value {
	none := ops.Const(c.b, shape.F32(), -math.MaxFloat32)
	y := ops.Max(c.b, ops.SelectOf(c.b, c.weights(x, false), x, none), true, 1)
	if c.b.Err() != nil {
		return x
	}
	y = c.whereCounts(y)
	c.sequence = false
	if keep {
		return y
	}
	return ops.ReshapeTo(c.b, y, slices.Delete(slices.Clone(y.Meta.Shape), 1, 2)...)
}

// withoutPadding sums x[B,T,…] over its positions, each with its weight. With mean,
// the weights of a sequence sum to 1.
func (c *context) withoutPadding(x *graph.Value, mean, keep bool) *graph.Value {
	weights := c.weights(x, mean)
	c.sequence = false
	return ops.Sum(c.b, ops.Mul(c.b, x, weights), keep, 1)
}

// counted keeps padding out of a loss. There, a target that is a class becomes -1, and
// numbers become 0 in both the output and the target.
func (c *context) counted(output, target *graph.Value) (_, _ *graph.Value) {
	switch {
	case c.lengths == nil:
		return output, target
	case target.Meta.DType == shape.Int32:
		return output, c.b.One(ops.PadWith{Value: -1}, target, c.lengths)
	case c.spec.PerPosition():
		return c.whereCounts(output), c.whereCounts(target)
	}
	row := func(x *graph.Value) *graph.Value { // [B,1,n], or [B,1] of one number
		return c.whereCounts(ops.ReshapeTo(c.b, x, slices.Insert(slices.Clone(x.Meta.Shape), 1, 1)...))
	}
	return row(output), row(target)
}

// terms is the number of the microbatch's loss terms that count, f32[]; nil if all do.
func (c *context) terms() *graph.Value {
	if c.lengths == nil || c.b.Err() != nil {
		return nil
	}
	defer c.b.In(c.endLayer("loss", c.spec.Loss))()
	if c.spec.Masked {
		return c.unmasked()
	}
	positions, each := 1, c.spec.Terms()
	if c.spec.PerPosition() {
		positions = c.spec.Target.Shape[0]
		each /= positions
	}
	terms := ops.Sum(c.b, c.b.One(ops.PositionWeights{T: positions}, c.lengths), false)
	if each > 1 {
		terms = c.b.One(ops.Affine{Scale: float64(each)}, terms)
	}
	return terms
}

// unmasked is the number of targets i32[B,T] that are not -1, f32[].
func (c *context) unmasked() *graph.Value {
	masked := ops.Relu(c.b, ops.Neg(c.b, ops.CastTo(c.b, c.target, "f32"))) // 1 of -1, else 0
	return ops.Sum(c.b, c.b.One(ops.Affine{Scale: -1, Shift: 1}, masked), false)
}
