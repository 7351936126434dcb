package ref

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/rng"
)

var generators = map[string]kernel{
	"cached_attention": cachedAttention,
	"cache_write":      cacheWrite,
	"state_write":      stateWrite,
	"positions":        positions,
	"last_row":         lastRow,
	"sample":           sample,

	"repetition_penalty": repetitionPenalty,
	"seen_write":         seenWrite,
}

// extent is a sequence's extent, checked.
func extent(a Array, b, rows, positions, places int) (ops.Extent, error) {
	e := ops.ExtentOf(a.I, b)
	return e, e.Check(rows, positions, places)
}

// anywhere is the number of positions and of places for extents of ops without a cache.
const anywhere = math.MaxInt32

func cachedAttention(op graph.Op, in, out []Array) error {
	qkv, y, context := in[0].Meta.Shape, out[0].F, in[1].Meta.Shape[1]
	o := op.(ops.CachedAttention).Whole()
	h, width := newHeads(o, in[0], nil), in[1].Meta.Shape[2] // of which qkv is rounded
	for b := range qkv[0] {
		x, err := extent(in[3], b, qkv[1], context, in[1].Meta.Shape[0])
		if err != nil {
			return err
		}
		// seen is the key or value of a position and head.
		seen := func(k, head, which int) []float64 {
			if k < x.Position {
				return in[which].F[(x.Place*context+k)*width+head/(o.Heads/o.Groups())*h.size:][:h.size]
			}
			return h.vector(h.qkv, b, k-x.Position, head, which)
		}
		for i := range x.Count * o.Heads {
			row, head := i/o.Heads, i%o.Heads
			from, to := o.Seen(x.Position+row, context)
			scores := make([]float64, to-from)
			for k := range scores {
				scores[k] = h.score(h.vector(h.qkv, b, row, head, query), seen(from+k, head, key))
			}
			lse, result := logSumExp(scores), h.output(y, b, row, head)
			for k, s := range scores {
				for e, v := range seen(from+k, head, value) {
					result[e] += h.factor(math.Exp(s-lse)) * v
				}
			}
		}
	}
	return nil
}

func cacheWrite(op graph.Op, in, out []Array) error {
	cache, x := in[0].Meta.Shape, in[1].Meta.Shape
	copy(out[0].F, in[0].F)
	for b := range x[0] {
		at, err := extent(in[2], b, x[1], cache[1], cache[0])
		if err != nil {
			return err
		}
		for i := range at.Count {
			from := (b*x[1]+i)*x[2] + op.(ops.CacheWrite).From(x[2], cache[2])
			for e, v := range in[1].F[from : from+cache[2]] {
				if op.(ops.CacheWrite).BF16 {
					v = roundedBF16(v)
				}
				out[0].F[(at.Place*cache[1]+at.Position+i)*cache[2]+e] = v
			}
		}
	}
	return nil
}

func stateWrite(_ graph.Op, in, out []Array) error {
	x, d := in[1].Meta.Shape, in[1].Meta.Shape[2]
	copy(out[0].F, in[0].F)
	for b := range x[0] {
		at, err := extent(in[2], b, x[1], anywhere, in[0].Meta.Shape[0])
		if err != nil {
			return err
		}
		copy(out[0].F[at.Place*d:], in[1].F[(b*x[1]+at.Count-1)*d:][:d])
	}
	return nil
}

func positions(_ graph.Op, in, out []Array) error {
	t := out[0].Meta.Shape[1]
	for b := range out[0].Meta.Shape[0] {
		at, err := extent(in[0], b, t, anywhere, anywhere)
		if err != nil {
			return err
		}
		for i := range at.Count {
			out[0].I[b*t+i] = int32(at.Position + i)
		}
	}
	return nil
}

func lastRow(_ graph.Op, in, out []Array) error {
	t, d := in[0].Meta.Shape[1], in[0].Meta.Shape[2]
	for b := range in[0].Meta.Shape[0] {
		at, err := extent(in[1], b, t, anywhere, anywhere)
		if err != nil {
			return err
		}
		copy(out[0].F[b*d:(b+1)*d], in[0].F[(b*t+at.Count-1)*d:])
	}
	return nil
}

func repetitionPenalty(_ graph.Op, in, out []Array) error {
	v := in[1].Meta.Shape[1]
	copy(out[0].F, in[0].F)
	has, _, err := seen(in[1], in[2], in[3])
	for i, x := range out[0].F[:len(has)*v] {
		penalty := in[4].F[i/v]
		switch {
		case !has[i/v][i%v]:
		case x > 0:
			out[0].F[i] = x / penalty
		default:
			out[0].F[i] = x * penalty
		}
	}
	return err
}

func seenWrite(_ graph.Op, in, out []Array) error {
	v := in[0].Meta.Shape[1]
	copy(out[0].I, in[0].I)
	has, places, err := seen(in[0], in[1], in[2])
	for b := range has {
		for id, yes := range has[b] {
			out[0].I[places[b]*v+id] = 0
			if yes {
				out[0].I[places[b]*v+id] = 1
			}
		}
	}
	return err
}

// seen is, for each sequence, whether it has a token, and its place.
func seen(before, tokens, extents Array) (has [][]bool, places []int, err error) {
	v, t := before.Meta.Shape[1], tokens.Meta.Shape[1]
	for b := range tokens.Meta.Shape[0] {
		at, err := extent(extents, b, t, anywhere, before.Meta.Shape[0])
		if err != nil {
			return nil, nil, err
		}
		row := make([]bool, v)
		for id := range row {
			row[id] = at.Position > 0 && before.I[at.Place*v+id] != 0 || slices.Contains(tokens.I[b*t:][:at.Count], int32(id))
		}
		has, places = append(has, row), append(places, at.Place)
	}
	return has, places, nil
}

// choice is a token with its logit, and its weight in proportion to the probability.
type choice struct {
	id            int
	logit, weight float64
}

func sample(op graph.Op, in, out []Array) error {
	v := in[0].Meta.Shape.Dim(-1)
	for b := range out[0].I {
		logits := in[0].F[b*v:][:op.(ops.Sample).Count(v)]
		if bad := undrawable(logits); bad >= 0 {
			out[0].I[b] = int32(-1 - bad)
			continue
		}
		var all []choice
		for id, x := range logits {
			all = append(all, choice{id: id, logit: x})
		}
		shaping, pick := in[2].F[2*b:][:2], in[3].I[3*b:][:3]
		key := rng.Key{Lo: uint32(pick[1]), Hi: uint32(pick[2])}
		w := key.At(0, uint32(in[1].I[b]))
		out[0].I[b] = int32(draw(all, shaping[0], shaping[1], int(pick[0]), rng.Float64(w[0], w[1])))
	}
	return nil
}

// undrawable is the first of logits for which none can be drawn, else -1.
func undrawable(logits []float64) int {
	if i := slices.IndexFunc(logits, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 1) }); i >= 0 {
		return i
	}
	if math.IsInf(slices.Max(logits), -1) {
		return 0
	}
	return -1
}

// draw is the token that the uniform number u draws.
func draw(all []choice, temperature, topP float64, topK int, u float64) int {
	slices.SortStableFunc(all, func(a, b choice) int { return cmp.Compare(b.logit, a.logit) })
	best := all[0].logit
	switch {
	case temperature == 0:
		return all[0].id
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
			return c.id
		}
	}
	return all[left-1].id
}
