package ref

import (
	"math"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
)

var randoms = map[string]kernel{
	"dropout":               of(dropout),
	"causal_attention":      of(attention),
	"causal_attention_grad": of(attentionGrad),
}

// mask is what dropout multiplies element i of the global batch by.
func mask(k rng.Key, p float64, i int, step int32) float64 {
	if !ops.Kept(p, k.At(uint64(i)/4, uint32(step))[i%4]) {
		return 0
	}
	return 1 / (1 - p)
}

func dropout(o ops.Dropout, in, out []Array) {
	s := in[0].Meta.Shape
	first := int(in[2].I[0]) * s[1:].Elems()
	for i, x := range in[0].F {
		if m := mask(o.Key(), o.P, first+i, in[1].I[0]); m != 0 { // what is dropped is 0, whatever it was
			out[0].F[i] = x * m
		}
	}
}

// heads is one application of attention: how to find queries, keys, values and
// the mask.
type heads struct {
	o          ops.CausalSelfAttention
	t, d       int // time, width
	qkv        []float64
	step, base int32
}

func newHeads(o ops.CausalSelfAttention, qkv Array, scalars []Array) heads {
	h := heads{o: o, t: qkv.Meta.Shape[1], d: qkv.Meta.Shape[2] / 3, qkv: qkv.F}
	if o.P > 0 {
		h.step, h.base = scalars[0].I[0], scalars[1].I[0]
	}
	return h
}

// at is where part 0, 1 or 2 (query, key, value) of a position and head
// starts in qkv.
func (h heads) at(b, t, head, part int) int {
	return (b*h.t+t)*3*h.d + part*h.d + head*h.size()
}

func (h heads) size() int { return h.d / h.o.Heads }

// score is the scaled product of a query and a key.
func (h heads) score(b, head, q, k int) float64 {
	iq, ik, s := h.at(b, q, head, 0), h.at(b, k, head, 1), 0.0
	for e := range h.size() {
		s += h.qkv[iq+e] * h.qkv[ik+e]
	}
	return s / math.Sqrt(float64(h.size()))
}

// mask is what dropout multiplies a probability by.
func (h heads) mask(b, head, q, k int) float64 {
	if h.o.P == 0 {
		return 1
	}
	i := (int(h.base)+b)*h.o.Heads*h.t*h.t + (head*h.t+q)*h.t + k
	return mask(h.o.Key(), h.o.P, i, h.step)
}

func attention(o ops.CausalSelfAttention, in, out []Array) {
	h := newHeads(o, in[0], in[1:])
	each(out[1].Meta.Shape, func(i int, ix []int) { // batch, head, query
		b, head, q := ix[0], ix[1], ix[2]
		scores := make([]float64, q+1)
		for k := range scores {
			scores[k] = h.score(b, head, q, k)
		}
		lse := logSumExp(scores)
		out[1].F[i] = lse
		y := out[0].F[(b*h.t+q)*h.d+head*h.size():]
		for k, s := range scores {
			p := math.Exp(s-lse) * h.mask(b, head, q, k)
			for e := range h.size() {
				y[e] += p * h.qkv[h.at(b, k, head, 2)+e]
			}
		}
	})
}

func attentionGrad(o ops.CausalSelfAttentionGrad, in, out []Array) {
	h := newHeads(ops.CausalSelfAttention(o), in[0], in[4:])
	y, lse, dqkv := in[1].F, in[2], out[0].F
	scale := 1 / math.Sqrt(float64(h.size()))
	each(lse.Meta.Shape, func(i int, ix []int) {
		b, head, q := ix[0], ix[1], ix[2]
		row := (b*h.t+q)*h.d + head*h.size()
		dy, dot := in[3].F[row:], 0.0
		for e := range h.size() { // sum over k of p dp is dy·y
			dot += dy[e] * y[row+e]
		}
		iq := h.at(b, q, head, 0)
		for k := range q + 1 {
			ik, iv := h.at(b, k, head, 1), h.at(b, k, head, 2)
			p, m := math.Exp(h.score(b, head, q, k)-lse.F[i]), h.mask(b, head, q, k)
			dp := 0.0
			for e := range h.size() {
				dp += m * dy[e] * h.qkv[iv+e]
				dqkv[iv+e] += m * p * dy[e]
			}
			ds := p * (dp - dot) * scale
			for e := range h.size() {
				dqkv[iq+e] += ds * h.qkv[ik+e]
				dqkv[ik+e] += ds * h.qkv[iq+e]
			}
		}
	})
}
