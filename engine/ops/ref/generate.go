package ref

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
)

var generators = map[string]kernel{
	"cached_attention": cachedAttention,
	"cache_write":      cacheWrite,
	"positions":        positions,
	"last_row":         lastRow,
	"sample":           sample,

	"repetition_penalty": repetitionPenalty,
	"seen_write":         seenWrite,
}

// extent is a sequence's extent, checked.
func extent(a Array, b, rows, cached int) (position, count int, err error) {
	p, n := a.I[2*b], a.I[2*b+1]
	return int(p), int(n), ops.CheckExtent(p, n, rows, cached)
}

func cachedAttention(op graph.Op, in, out []Array) error {
	qkv, y, context := in[0].Meta.Shape, out[0].F, in[1].Meta.Shape[1]
	o := op.(ops.CachedAttention).Whole()
	h, width := newHeads(o, in[0], nil), in[1].Meta.Shape[2]
	for b := range qkv[0] {
		position, count, err := extent(in[3], b, qkv[1], context)
		if err != nil {
			return err
		}
		// seen is the key or value of a position and head.
		seen := func(k, head, which int) []float64 {
			if k < position {
				return in[which].F[(b*context+k)*width+head/(o.Heads/o.Groups())*h.size:][:h.size]
			}
			return h.vector(h.qkv, b, k-position, head, which)
		}
		for i := range count * o.Heads {
			row, head := i/o.Heads, i%o.Heads
			from, to := o.Seen(position+row, context)
			scores := make([]float64, to-from)
			for k := range scores {
				scores[k] = h.score(h.vector(h.qkv, b, row, head, query), seen(from+k, head, key))
			}
			lse, result := logSumExp(scores), h.output(y, b, row, head)
			for k, s := range scores {
				for e, v := range seen(from+k, head, value) {
					result[e] += math.Exp(s-lse) * v
				}
			}
		}
	}
	return nil
}

func cacheWrite(op graph.Op, in, out []Array) error {
	cache, x := in[0].Meta.Shape, in[1].Meta.Shape
	copy(out[0].F, in[0].F)
	for b := range cache[0] {
		position, count, err := extent(in[2], b, x[1], cache[1])
		if err != nil {
			return err
		}
		for i := range count {
			from := (b*x[1]+i)*x[2] + op.(ops.CacheWrite).From(x[2], cache[2])
			copy(out[0].F[(b*cache[1]+position+i)*cache[2]:], in[1].F[from:from+cache[2]])
		}
	}
	return nil
}

func positions(_ graph.Op, in, out []Array) error {
	t := out[0].Meta.Shape[1]
	for b := range out[0].Meta.Shape[0] {
		position, count, err := extent(in[0], b, t, math.MaxInt32)
		if err != nil {
			return err
		}
		for i := range count {
			out[0].I[b*t+i] = int32(position + i)
		}
	}
	return nil
}

func lastRow(_ graph.Op, in, out []Array) error {
	t, d := in[0].Meta.Shape[1], in[0].Meta.Shape[2]
	for b := range in[0].Meta.Shape[0] {
		_, count, err := extent(in[1], b, t, math.MaxInt32)
		if err != nil {
			return err
		}
		copy(out[0].F[b*d:(b+1)*d], in[0].F[(b*t+count-1)*d:])
	}
	return nil
}

func repetitionPenalty(_ graph.Op, in, out []Array) error {
	v := in[1].Meta.Shape[1]
	copy(out[0].F, in[0].F)
	has, err := seen(in[1], in[2], in[3])
	for i, x := range out[0].F[:len(has)*v] {
		switch {
		case !has[i/v][i%v]:
		case x > 0:
			out[0].F[i] = x / in[4].F[0]
		default:
			out[0].F[i] = x * in[4].F[0]
		}
	}
	return err
}

func seenWrite(_ graph.Op, in, out []Array) error {
	v := in[0].Meta.Shape[1]
	has, err := seen(in[0], in[1], in[2])
	for b := range has {
		for id, yes := range has[b] {
			out[0].I[b*v+id] = 0
			if yes {
				out[0].I[b*v+id] = 1
			}
		}
	}
	return err
}

// seen is, for each sequence, whether it has a token.
func seen(before, tokens, extents Array) (has [][]bool, err error) {
	v, t := before.Meta.Shape[1], tokens.Meta.Shape[1]
	for b := range before.Meta.Shape[0] {
		position, count, err := extent(extents, b, t, math.MaxInt32)
		if err != nil {
			return nil, err
		}
		row := make([]bool, v)
		for id := range row {
			row[id] = position > 0 && before.I[b*v+id] != 0 || slices.Contains(tokens.I[b*t:][:count], int32(id))
		}
		has = append(has, row)
	}
	return has, nil
}

// choice is a token with its logit, and its weight in proportion to the probability.
type choice struct {
	id            int
	logit, weight float64
}

func sample(op graph.Op, in, out []Array) error {
	v := in[0].Meta.Shape.Dim(-1)
	for b := range out[0].I {
		var all []choice
		for id, x := range in[0].F[b*v:][:op.(ops.Sample).Count(v)] {
			if math.IsNaN(x) || math.IsInf(x, 1) {
				return errors.New("a logit is not finite")
			}
			all = append(all, choice{id: id, logit: x})
		}
		key := rng.Key{Lo: uint32(in[3].I[1]), Hi: uint32(in[3].I[2])}
		w := key.At(uint64(b), uint32(in[1].I[b]))
		id, err := draw(all, in[2].F[0], in[2].F[1], int(in[3].I[0]), rng.Float64(w[0], w[1]))
		if err != nil {
			return err
		}
		out[0].I[b] = int32(id)
	}
	return nil
}

// draw is the token that the uniform number u draws.
func draw(all []choice, temperature, topP float64, topK int, u float64) (int, error) {
	slices.SortStableFunc(all, func(a, b choice) int { return cmp.Compare(b.logit, a.logit) })
	best := all[0].logit
	switch {
	case math.IsInf(best, -1):
		return 0, errors.New("no logit is finite")
	case temperature == 0:
		return all[0].id, nil
	case topK > 0 && topK < len(all):
		all = all[:topK]
	}
	total := 0.0
	for i := range all {
		all[i].weight = math.Exp((all[i].logit - best) / temperature)
		total += all[i].weight
	}
	left, kept := 0, 0.0
	for left < len(all) && (left == 0 || topP >= 1 || kept < topP*total) {
		kept += all[left].weight
		left++
	}
	all = all[:left]
	slices.SortFunc(all, func(a, b choice) int { return cmp.Compare(a.id, b.id) })
	sum := 0.0
	for _, c := range all {
		if sum += c.weight; sum > u*kept {
			return c.id, nil
		}
	}
	return all[left-1].id, nil
}
