package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

// attentionOps are the rows of the op table that are in this file.
var attentionOps = []graph.Op{CausalSelfAttention{}, CausalSelfAttentionGrad{}}

// CausalSelfAttention is multi-head attention in which position t sees
// positions up to t: qkv [B,T,3D], queries, keys and values side by side as
// GPT-2 lays them out, to y [B,T,D] and lse f32 [B,Heads,T], the log sum exp
// of each row of scores, kept for the gradient. Scores are scaled by
// 1/sqrt(D/Heads). Where P > 0 two more inputs, step i32[] and base i32[],
// drive dropout of the probabilities, see [Dropout]: the element of head h,
// query q and key k has index (h*T+q)*T+k of Heads*T*T in its sample.
type CausalSelfAttention struct {
	Heads    int
	P        float64
	Seed, ID uint64
}

// Kind is "causal_attention".
func (o CausalSelfAttention) Kind() string { return "causal_attention" }

// Key is the op's stream of random numbers.
func (o CausalSelfAttention) Key() rng.Key { return rng.NewKey(o.Seed, o.ID) }

// Infer checks that the width is three equal parts that split into heads.
func (o CausalSelfAttention) Infer(in []shape.Meta) ([]shape.Meta, error) {
	y, lse, err := o.outputs(in, 1)
	if err != nil {
		return nil, err
	}
	return []shape.Meta{y, lse}, nil
}

// outputs checks qkv, the first of n inputs, and the dropout scalars after
// them, and returns the metadata of y and lse.
func (o CausalSelfAttention) outputs(in []shape.Meta, n int) (y, lse shape.Meta, err error) {
	want := n
	if o.P != 0 {
		want += 2
	}
	if err := arity(in, want); err != nil {
		return y, lse, err
	}
	if err := probability(o.P); err != nil {
		return y, lse, err
	}
	if o.P > 0 {
		if err := drawn(in[n], in[n+1]); err != nil {
			return y, lse, err
		}
	}
	if in[0].DType != shape.Float32 || in[0].Shape.Rank() != 3 || in[0].Shape[2]%3 != 0 {
		return y, lse, fmt.Errorf("input is %v, expected f32 [batch, time, 3*width]", in[0])
	}
	b, t, d := in[0].Shape[0], in[0].Shape[1], in[0].Shape[2]/3
	if o.Heads < 1 || d == 0 || d%o.Heads != 0 {
		return y, lse, fmt.Errorf("width %d does not split into %d heads", d, o.Heads)
	}
	return shape.F32(b, t, d), shape.F32(b, o.Heads, t), nil
}

// Grad is [CausalSelfAttentionGrad].
func (o CausalSelfAttention) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	dx := noGrad(n)
	if !onlyFirst(b, n, dy) {
		return dx
	}
	in := append([]*graph.Value{n.In[0], n.Out[0], n.Out[1], dy[0]}, n.In[1:]...)
	dx[0] = b.One(CausalSelfAttentionGrad(o), in...)
	return dx
}

// Cost is two products over the lower triangle and its softmax.
func (o CausalSelfAttention) Cost(in, out []shape.Meta) graph.Cost {
	return attentionCost(2, o.Heads, in, out)
}

// CausalSelfAttentionGrad is dqkv from (qkv, y, lse, dy [, step, base]). The
// probabilities are computed again from qkv and lse.
type CausalSelfAttentionGrad struct {
	Heads    int
	P        float64
	Seed, ID uint64
}

// Kind is "causal_attention_grad".
func (o CausalSelfAttentionGrad) Kind() string { return "causal_attention_grad" }

// Key is the op's stream of random numbers, the same as forward.
func (o CausalSelfAttentionGrad) Key() rng.Key { return rng.NewKey(o.Seed, o.ID) }

// Infer keeps the metadata of qkv.
func (o CausalSelfAttentionGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	y, lse, err := CausalSelfAttention(o).outputs(in, 4)
	if err != nil {
		return nil, err
	}
	if err := expect("y", in[1], y); err != nil {
		return nil, err
	}
	if err := expect("lse", in[2], lse); err != nil {
		return nil, err
	}
	return one(in[0]), expect("dy", in[3], y)
}

// Grad fails: see noSecond.
func (o CausalSelfAttentionGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is five products over the lower triangle and the softmax.
func (o CausalSelfAttentionGrad) Cost(in, out []shape.Meta) graph.Cost {
	return attentionCost(5, o.Heads, in, out)
}

// attentionCost counts products over the lower triangle of [T,T] and twelve
// operations per score.
func attentionCost(products, heads int, in, out []shape.Meta) graph.Cost {
	b, t, d := in[0].Shape[0], in[0].Shape[1], in[0].Shape[2]/3
	pairs := b * t * (t + 1) / 2
	return perElem(2*products*d+12*heads, pairs, in, out)
}
