package ref

import (
	"math"

	"github.com/berth-ml/berth/engine/ops"
)

var attentions = map[string]kernel{
	"attention":      of(attention),
	"attention_grad": of(attentionGrad),
	"rotary":         of(rotary),
}

// The three vectors that qkv holds for each position, one after the other.
const (
	query = iota
	key
	value
)

// heads finds queries, keys, values and the dropout mask of one attention.
type heads struct {
	o              ops.Attention
	t, width, size int       // time steps, width of qkv, width of a head
	qkv            []float64 // rounded where factors are
	lengths        []int32   // positions that count, by sample; nil: all
	starts         []int32   // the first position that each sees, by sample; nil: all
	step, base     int32     // the training step; the batch's first row in the global batch
}

func newHeads(o ops.Attention, qkv Array, more []Array) *heads {
	t, width := qkv.Meta.Shape[1], qkv.Meta.Shape[2]
	h := &heads{o: o, t: t, width: width, size: o.Size(width), qkv: rounded(o, qkv).F}
	if o.Padded {
		h.lengths, more = more[0].I, more[1:]
	}
	if o.Packed {
		h.starts = make([]int32, len(more[0].I))
		for at := 0; at < len(h.starts); at += t {
			ops.Starts(h.starts[at:at+t], more[0].I[at:at+t])
		}
		more = more[1:]
	}
	if o.P > 0 {
		h.step, h.base = more[0].I[0], more[1].I[0]
	}
	return h
}

// rounded is an input that products take.
func rounded(o ops.Attention, a Array) Array {
	if o.BF16 {
		return roundBF16(a)
	}
	return a
}

// factor is a number in between, as products take it.
func (h *heads) factor(x float64) float64 {
	if h.o.BF16 {
		return roundedBF16(x)
	}
	return x
}

// length is the positions of a sample that count.
func (h *heads) length(b int) int {
	if h.lengths == nil {
		return h.t
	}
	return ops.Length(h.lengths[b], h.t)
}

// seen is the keys from..to that a query sees.
func (h *heads) seen(b, q int) (from, to int) {
	from, to = h.o.Seen(q, h.length(b))
	if h.starts != nil {
		from = max(from, int(h.starts[b*h.t+q]))
	}
	return from, to
}

// vector is the query, key or value of a position and head of queries in data, which is
// laid out as qkv.
func (h *heads) vector(data []float64, b, t, head, which int) []float64 {
	at := head
	if which != query {
		at = h.o.Heads + (which-1)*h.o.Groups() + head/(h.o.Heads/h.o.Groups())
	}
	return data[(b*h.t+t)*h.width+at*h.size:][:h.size]
}

// output is the result of a position and head in data [batch, time, width].
func (h *heads) output(data []float64, b, t, head int) []float64 {
	return data[((b*h.t+t)*h.o.Heads+head)*h.size:][:h.size]
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

func attention(o ops.Attention, in, out []Array) {
	h := newHeads(o, in[0], in[1:])
	each(out[1].Meta.Shape, func(i int, ix []int) {
		b, head, q := ix[0], ix[1], ix[2]
		from, to := h.seen(b, q)
		if from == to {
			return
		}
		scores, vq := make([]float64, to-from), h.vector(h.qkv, b, q, head, query)
		for k := range scores {
			scores[k] = h.score(vq, h.vector(h.qkv, b, from+k, head, key))
		}
		lse := logSumExp(scores)
		out[1].F[i] = lse
		y := h.output(out[0].F, b, q, head)
		for k, s := range scores {
			p := h.factor(math.Exp(s-lse) * h.mask(b, head, q, from+k))
			for e, v := range h.vector(h.qkv, b, from+k, head, value) {
				y[e] += p * v
			}
		}
	})
}

func attentionGrad(o ops.AttentionGrad, in, out []Array) {
	h := newHeads(ops.Attention(o), in[0], in[4:])
	lse, dys, dqkv := in[2], rounded(h.o, in[3]).F, out[0].F
	scale := 1 / math.Sqrt(float64(h.size))
	each(lse.Meta.Shape, func(i int, ix []int) {
		b, head, q := ix[0], ix[1], ix[2]
		y, dy, dot := h.output(in[1].F, b, q, head), h.output(dys, b, q, head), 0.0
		for e := range y { // the sum of p dp over all k is dy·y
			dot += dy[e] * y[e]
		}
		vq, dvq := h.vector(h.qkv, b, q, head, query), h.vector(dqkv, b, q, head, query)
		from, to := h.seen(b, q)
		for k := from; k < to; k++ {
			vk, dvk := h.vector(h.qkv, b, k, head, key), h.vector(dqkv, b, k, head, key)
			vv, dvv := h.vector(h.qkv, b, k, head, value), h.vector(dqkv, b, k, head, value)
			p, m := math.Exp(h.score(vq, vk)-lse.F[i]), h.mask(b, head, q, k)
			dp, weight := 0.0, h.factor(m*p)
			for e := range vv {
				dp += m * dy[e] * vv[e]
				dvv[e] += weight * dy[e]
			}
			ds := h.factor(p * (dp - dot) * scale)
			for e := range vk {
				dvq[e] += ds * vk[e]
				dvk[e] += ds * vq[e]
			}
		}
	})
}

func rotary(o ops.Rotary, in, out []Array) {
	x, y, s := in[0].F, out[0].F, in[0].Meta.Shape
	copy(y, x)
	half, turns := o.Size/2, o.Turns()
	for row := range s[0] * s[1] {
		position := int32(row % s[1])
		if len(in) == 2 {
			position = in[1].I[row]
		}
		for i := range o.Heads * half {
			a := row*s[2] + i/half*o.Size + i%half
			sin, cos := math.Sincos(ops.Angle(turns[i%half], position))
			y[a], y[a+half] = x[a]*cos-x[a+half]*sin, x[a+half]*cos+x[a]*sin
		}
	}
}
