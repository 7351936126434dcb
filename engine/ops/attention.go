package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

// attentionOps are the rows of the op table that are in this file.
var attentionOps = []graph.Op{Attention{}, AttentionGrad{}}

// Attention is self-attention by heads: qkv [B,T,(Heads+2G)S], queries, keys and values
// side by side, to y [B,T,Heads*S] and lse f32 [B,Heads,T], the log sum exp of each row of
// scores, kept for the gradient. Scores are scaled by 1/sqrt(S).
//
// G is KVHeads, or Heads where that is 0. Heads/G neighbouring heads of queries share one
// of keys and values: all with G = 1 (multi-query; Shazeer 2019), some between (grouped-query;
// Ainslie et al. 2023). Which keys a query sees, [Attention.Seen] says.
//
// With Padded one more input, lengths i32[B], has the positions of each sequence that are no
// padding. Padding is not read, and 0 in y and lse. With Packed, which causal attention
// without Padded may be, one more input, positions i32[B,T], has the position of each in
// a sequence of its own, of several in a row: 0, 1, … A query sees none before position 0 of its
// own: see [Starts]. Where P > 0 two more inputs, step i32[]
// and base i32[], drive dropout of the probabilities, see [Dropout]: the element of head h,
// query q and key k has index (h*T+q)*T+k of Heads*T*T in its sample.
//
// With BF16 the factors of its products are rounded to bfloat16 ([RoundBF16]): queries and keys,
// whose products are the scores, and values and the probabilities that they are multiplied with,
// after dropout. Products, sums, the softmax and lse are float32 all the same.
type Attention struct {
	Heads, KVHeads int
	Full           bool // queries see later keys, too
	Window         int  // keys that a query sees on a side, itself among them; 0: all
	Padded         bool
	Packed         bool
	BF16           bool
	P              float64
	Seed, ID       uint64
}

// String is all its fields. Without Packed and BF16 it is as before there were these, since it is
// part of the fingerprints of runs.
func (o Attention) String() string {
	later := ""
	if o.Packed {
		later += " Packed:true"
	}
	if o.BF16 {
		later += " BF16:true"
	}
	return fmt.Sprintf("{Heads:%d KVHeads:%d Full:%t Window:%d Padded:%t%s P:%v Seed:%d ID:%d}", o.Heads, o.KVHeads, o.Full, o.Window, o.Padded, later, o.P, o.Seed, o.ID)
}

// Kind is "attention".
func (o Attention) Kind() string { return "attention" }

// Key is the op's stream of random numbers.
func (o Attention) Key() rng.Key { return rng.NewKey(o.Seed, o.ID) }

// Groups is the number of heads of keys and values.
func (o Attention) Groups() int {
	if o.KVHeads == 0 {
		return o.Heads
	}
	return o.KVHeads
}

// Size is the width S of a head, of qkv of that width.
func (o Attention) Size(width int) int { return width / (o.Heads + 2*o.Groups()) }

// Seen is the keys from..to that query q of a sequence of n positions sees; none if q is
// padding.
func (o Attention) Seen(q, n int) (from, to int) {
	if q >= n {
		return 0, 0
	}
	to = q + 1
	if o.Full {
		to = n
	}
	if o.Window > 0 {
		from, to = max(0, q+1-o.Window), min(to, q+o.Window)
	}
	return from, to
}

// Starts writes to dst the first position of the sequence that each position of a row is in, of
// their positions within it. None is before that of the position before, nor behind its own.
func Starts(dst, positions []int32) {
	last := int32(0)
	for i, p := range positions {
		if start := int32(i) - max(0, p); start > last {
			last = start
		}
		dst[i] = last
	}
}

// Length is the positions of t that count in a sequence of that length: see the ops of
// lengths.go.
func Length(length int32, t int) int { return max(0, min(int(length), t)) }

// Infer checks that the width splits into heads.
func (o Attention) Infer(in []shape.Meta) ([]shape.Meta, error) {
	y, lse, err := o.outputs(in, 1)
	if err != nil {
		return nil, err
	}
	return []shape.Meta{y, lse}, nil
}

// outputs checks qkv, the first of n inputs, and the lengths and dropout scalars after
// them, and returns the metadata of y and lse.
func (o Attention) outputs(in []shape.Meta, n int) (y, lse shape.Meta, err error) {
	want := n
	if o.Padded {
		want++
	}
	if o.Packed {
		want++
	}
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
		if err := drawn(in[want-2], in[want-1]); err != nil {
			return y, lse, err
		}
	}
	if in[0].DType != shape.Float32 || in[0].Shape.Rank() != 3 {
		return y, lse, fmt.Errorf("input is %v, expected f32 [batch, time, queries+keys+values]", in[0])
	}
	size, err := o.size(in[0].Shape[2])
	if err != nil {
		return y, lse, err
	}
	b, t := in[0].Shape[0], in[0].Shape[1]
	if o.Padded {
		if err := expect("lengths", in[n], shape.I32(b)); err != nil {
			return y, lse, err
		}
	}
	if o.Packed {
		if err := expect("positions", in[n], shape.I32(b, t)); err != nil {
			return y, lse, err
		}
	}
	return shape.F32(b, t, o.Heads*size), shape.F32(b, o.Heads, t), nil
}

// size is the width of a head, checked.
func (o Attention) size(width int) (int, error) {
	switch g := o.Groups(); {
	case o.Heads < 1 || g < 1 || o.Heads%g != 0:
		return 0, fmt.Errorf("%d heads of queries cannot share %d of keys and values: use a divisor", o.Heads, o.KVHeads)
	case o.Packed && (o.Full || o.Padded):
		return 0, fmt.Errorf("sequences in a row take causal attention without lengths")
	case o.Window < 0:
		return 0, fmt.Errorf("a window of %d keys: give at least 1, or 0 for all", o.Window)
	case width < 1 || width%(o.Heads+2*g) != 0:
		return 0, fmt.Errorf("width %d does not split into %d heads of queries and %d of keys and values", width, o.Heads, g)
	}
	return o.Size(width), nil
}

// Grad is [AttentionGrad].
func (o Attention) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	dx := noGrad(n)
	if !onlyFirst(b, n, dy) {
		return dx
	}
	in := append([]*graph.Value{n.In[0], n.Out[0], n.Out[1], dy[0]}, n.In[1:]...)
	dx[0] = b.One(AttentionGrad(o), in...)
	return dx
}

// Cost is two products over the scores, and their softmax.
func (o Attention) Cost(in, out []shape.Meta) graph.Cost { return o.cost(2, in, out) }

// AttentionGrad is dqkv from (qkv, y, lse, dy [, lengths] [, positions] [, step, base]). The
// probabilities are computed again from qkv and lse.
//
// With BF16 the factors of its five products are rounded: qkv and the probabilities as in
// [Attention], dy, also in its sum of products with y, and the gradients of the scores, times the
// scale.
type AttentionGrad struct {
	Heads, KVHeads int
	Full           bool
	Window         int
	Padded         bool
	Packed         bool
	BF16           bool
	P              float64
	Seed, ID       uint64
}

// String is as that of [Attention].
func (o AttentionGrad) String() string { return Attention(o).String() }

// Kind is "attention_grad".
func (o AttentionGrad) Kind() string { return "attention_grad" }

// Key is the op's stream of random numbers, the same as forward.
func (o AttentionGrad) Key() rng.Key { return rng.NewKey(o.Seed, o.ID) }

// Infer keeps the metadata of qkv.
func (o AttentionGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	y, lse, err := Attention(o).outputs(in, 4)
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
func (o AttentionGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is five products over the scores, and their softmax.
func (o AttentionGrad) Cost(in, out []shape.Meta) graph.Cost {
	return Attention(o).cost(5, in, out)
}

// cost counts products over the pairs of queries and keys that see each other, and twelve
// operations per score.
func (o Attention) cost(products int, in, out []shape.Meta) graph.Cost {
	s := in[0].Shape
	return perElem(2*products*o.Heads*o.Size(s[2])+12*o.Heads, s[0]*o.Pairs(s[1]), in, out)
}

// Pairs is the pairs of a query and a key that it sees, in a sequence of n positions.
func (o Attention) Pairs(n int) int {
	w := n
	if o.Window > 0 {
		w = min(w, o.Window)
	}
	// Queries up to w see all before them, the rest w keys.
	pairs := w*(w+1)/2 + (n-w)*w
	if o.Full { // as many behind, the query itself but once
		pairs = 2*pairs - n
	}
	return pairs
}
