package kernelstest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

var generateCases = map[string]func(s Source) Sample{
	"cached_attention": func(s Source) Sample {
		b, t, c := s.Dim("b", 3), s.Size("t", 40), s.Size("c", 90)
		op := ops.CachedAttention{KVHeads: s.Size("groups", 2), BF16: s.Bool("bf16")}
		op.Heads = op.KVHeads * s.Size("shared", 3)
		if s.Bool("windowed") {
			op.Window = s.Size("window", 40)
		}
		size := s.Size("width", 40)
		d := op.KVHeads * size
		places := b + s.Size("places", 2)
		tol, cached := 2e-5, func() ref.Array { return s.Normal(places, c, d) }
		if op.BF16 {
			tol, cached = RoundedAttention, func() ref.Array { return rounded(s.Normal(places, c, d)) }
		}
		return Of(op, tol, s.Normal(b, t, op.Heads*size+2*d), cached(), cached(), s.Extents(b, t, c, places))
	},
	"cache_write": func(s Source) Sample {
		b, t, c, d := s.Dim("b", 3), s.Size("t", 9), s.Size("c", 20), s.Size("d", 20)
		places := b + s.Size("places", 2)
		return Of(ops.CacheWrite{Part: rapid.IntRange(1, 2).Draw(s.T, "part"), BF16: s.Bool("bf16")}, 0, s.Normal(places, c, d), s.Normal(b, t, s.Size("more", 5)+3*d), s.Extents(b, t, c, places))
	},
	"state_write": func(s Source) Sample {
		b, t, d := s.Dim("b", 3), s.Size("t", 9), s.Dim("d", 20)
		places := b + s.Size("places", 2)
		return Of(ops.StateWrite{}, 0, s.Normal(places, d), s.Normal(b, t, d), s.Extents(b, t, 99, places))
	},
	"positions": func(s Source) Sample {
		t := s.Size("t", 9)
		b := s.Dim("b", 3)
		return Of(ops.Positions{T: t}, 0, s.Extents(b, t, 99, b))
	},
	"last_row": func(s Source) Sample {
		b, t := s.Dim("b", 3), s.Size("t", 9)
		return Of(ops.LastRow{}, 0, s.Normal(b, t, s.Dim("d", 20)), s.Extents(b, t, 99, b))
	},
	"repetition_penalty": func(s Source) Sample {
		b, v, t := s.Dim("b", 3), s.Size("v", 300), s.Size("t", 9)
		places, penalty := b+s.Size("places", 2), ref.New(shape.F32(b))
		for i := range penalty.F {
			penalty.F[i] = rapid.SampledFrom([]float64{0.5, 1, 1.25, 3}).Draw(s.T, "penalty")
		}
		return Of(ops.RepetitionPenalty{}, 1e-6, s.Normal(b, 1, v), s.IDs(2, places, v), s.IDs(v, b, t), s.Extents(b, t, 20, places), penalty)
	},
	"seen_write": func(s Source) Sample {
		b, v, t := s.Dim("b", 3), s.Size("v", 300), s.Size("t", 9)
		places := b + s.Size("places", 2)
		return Of(ops.SeenWrite{}, 0, s.IDs(2, places, v), s.IDs(v, b, t), s.Extents(b, t, 20, places))
	},
	"sample": func(s Source) Sample {
		b, v := s.Dim("b", 3), s.Size("v", 300)
		x := s.Normal(b, v)
		if s.Bool("ties") {
			for i := range x.F {
				x.F[i] = float64(s.Rng.IntN(4))
			}
		}
		if b > 0 && s.Bool("not finite") {
			x.F[s.Rng.IntN(len(x.F))] = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(s.T, "number")
		}
		shaping, choice := ref.New(shape.F32(b, 2)), s.IDs(1<<31-1, b, 3)
		for i := range b {
			shaping.F[2*i] = float64(float32(rapid.SampledFrom([]float64{0, 0.01, 0.8, 3}).Draw(s.T, "temperature")))
			shaping.F[2*i+1] = float64(float32(rapid.SampledFrom([]float64{0.001, 0.3, 0.9, 1}).Draw(s.T, "top-p")))
			choice.I[3*i] = int32(rapid.SampledFrom([]int{0, 1, 5, v, 2 * v}).Draw(s.T, "top-k"))
		}
		return Of(ops.Sample{Tokens: rapid.SampledFrom([]int{0, v/2 + 1, 2 * v}).Draw(s.T, "tokens")}, 0, x, s.IDs(1000, b), shaping, choice)
	},
}

// Extents are those of chunks of t rows of b sequences, for caches of c positions and so many
// places.
func (s Source) Extents(b, t, c, places int) ref.Array {
	a, order := ref.New(shape.I32(b, 3)), s.Rng.Perm(places)
	for i := range b {
		count := 1 + s.Rng.IntN(min(t, c))
		a.I[3*i], a.I[3*i+1], a.I[3*i+2] = int32(s.Rng.IntN(c-count+1)), int32(count), int32(order[i])
	}
	return a
}
