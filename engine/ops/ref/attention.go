package ref

import (
	"math"

	"github.com/berth-ml/berth/engine/ops"
)

var attentions = map[string]kernel{
	"causal_attention":      of(attention),
	"causal_attention_grad": of(attentionGrad),
}

// The three vectors that qkv holds for each position, one after the other.
const (
	query = iota
	key
	value
)

// heads finds queries, keys, values and the dropout mask of one attention.
type heads struct {
	o          ops.CausalSelfAttention
	t, d, size int // time steps, width of all heads, width of one
	qkv        []float64
	step, base int32 // the training step; the batch's first row in the global batch
}

func newHeads(o ops.CausalSelfAttention, qkv Array, scalars []Array) *heads {
	t, d := qkv.Meta.Shape[1], qkv.Meta.Shape[2]/3
	h := &heads{o: o, t: t, d: d, size: d / o.Heads, qkv: qkv.F}
	if o.P > 0 {
		h.step, h.base = scalars[0].I[0], scalars[1].I[0]
	}
	return h
}

// vector is the query, key or value of a position and head in data, which is
// laid out as qkv.
func (h *heads) vector(data []float64, b, t, head, which int) []float64 {
	return data[(b*h.t+t)*3*h.d+which*h.d+head*h.size:][:h.size]
}

// output is the result of a position and head in data [batch, time, width].
func (h *heads) output(data []float64, b, t, head int) []float64 {
	return data[(b*h.t+t)*h.d+head*h.size:][:h.size]
}

// score is the scaled product of a query and a key.
func (h *heads) score(query, key []float64) float64 {
	s := 0.0
	for e, q := range query {
		s += q * key[e]
	}
	return s / math.Sqrt(float64(h.size))
}

// mask is the factor by which dropout multiplies a probability.
func (h *heads) mask(b, head, q, k int) float64 {
	if h.o.P == 0 {
		return 1
	}
	i := (int(h.base)+b)*h.o.Heads*h.t*h.t + (head*h.t+q)*h.t + k
	return mask(h.o.Key(), h.o.P, i, h.step)
}

func attention(o ops.CausalSelfAttention, in, out []Array) {
	h := newHeads(o, in[0], in[1:])
	each(out[1].Meta.Shape, func(i int, ix []int) {
		b, head, q := ix[0], ix[1], ix[2]
		scores, vq := make([]float64, q+1), h.vector(h.qkv, b, q, head, query)
		for k := range scores {
			scores[k] = h.score(vq, h.vector(h.qkv, b, k, head, key))
		}
		lse := logSumExp(scores)
		out[1].F[i] = lse
		y := h.output(out[0].F, b, q, head)
		for k, s := range scores {
			p := math.Exp(s-lse) * h.mask(b, head, q, k)
			for e, v := range h.vector(h.qkv, b, k, head, value) {
				y[e] += p * v
			}
		}
	})
}

func attentionGrad(o ops.CausalSelfAttentionGrad, in, out []Array) {
	h := newHeads(ops.CausalSelfAttention(o), in[0], in[4:])
	lse, dqkv := in[2], out[0].F
	scale := 1 / math.Sqrt(float64(h.size))
	each(lse.Meta.Shape, func(i int, ix []int) {
		b, head, q := ix[0], ix[1], ix[2]
		y, dy, dot := h.output(in[1].F, b, q, head), h.output(in[3].F, b, q, head), 0.0
		for e := range y { // the sum of p dp over all k is dy·y
			dot += dy[e] * y[e]
		}
		vq, dvq := h.vector(h.qkv, b, q, head, query), h.vector(dqkv, b, q, head, query)
		for k := range q + 1 {
			vk, dvk := h.vector(h.qkv, b, k, head, key), h.vector(dqkv, b, k, head, key)
			vv, dvv := h.vector(h.qkv, b, k, head, value), h.vector(dqkv, b, k, head, value)
			p, m := math.Exp(h.score(vq, vk)-lse.F[i]), h.mask(b, head, q, k)
			dp := 0.0
			for e := range vv {
				dp += m * dy[e] * vv[e]
				dvv[e] += m * p * dy[e]
			}
			ds := p * (dp - dot) * scale
			for e := range vk {
				dvq[e] += ds * vk[e]
				dvk[e] += ds * vq[e]
			}
		}
	})
}
