package ops_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// drawExtent draws the extents of chunks of t rows, for caches of c positions and so many
// places.
func drawExtent(t *rapid.T, sequences, rows, c, places int) ref.Array {
	a := ref.New(shape.I32(sequences, 3))
	order := rapid.Permutation(upTo(places)).Draw(t, "places")
	for b := range sequences {
		count := num(t, 1, min(rows, c), "count")
		a.I[3*b], a.I[3*b+1], a.I[3*b+2] = int32(num(t, 0, c-count, "position")), int32(count), order[b]
	}
	return a
}

// upTo is 0, 1, … n-1.
func upTo(n int) (list []int32) {
	for i := range n {
		list = append(list, int32(i))
	}
	return list
}

func drawCachedAttention(t *rapid.T) sample {
	kv, b, rows, c := num(t, 1, 2, "groups"), num(t, 1, 2, "sequences"), num(t, 1, 4, "rows"), num(t, 1, 6, "context")
	o := ops.CachedAttention{Heads: kv * num(t, 1, 2, "shared"), KVHeads: kv, Window: num(t, 0, 3, "window")}
	size, places := num(t, 1, 3, "size"), num(t, 2, 3, "places")
	return sample{op: o, in: []ref.Array{
		signed(t, b, rows, (o.Heads+2*kv)*size), signed(t, places, c, kv*size), signed(t, places, c, kv*size), drawExtent(t, b, rows, c, places)}}
}

func drawCacheWrite(t *rapid.T) sample {
	b, rows, c, d, places := num(t, 1, 2, "sequences"), num(t, 1, 4, "rows"), num(t, 1, 6, "context"), num(t, 1, 3, "width"), num(t, 2, 3, "places")
	return sample{op: ops.CacheWrite{Part: num(t, 1, 2, "part")}, in: []ref.Array{
		signed(t, places, c, d), signed(t, b, rows, num(t, 3, 5, "queries")*d), drawExtent(t, b, rows, c, places)}}
}

func drawStateWrite(t *rapid.T) sample {
	b, rows, d, places := num(t, 1, 2, "sequences"), num(t, 1, 4, "rows"), num(t, 1, 3, "width"), num(t, 2, 3, "places")
	return sample{op: ops.StateWrite{}, in: []ref.Array{signed(t, places, d), signed(t, b, rows, d), drawExtent(t, b, rows, 9, places)}}
}

func drawPositions(t *rapid.T) sample {
	rows := num(t, 1, 4, "rows")
	return sample{op: ops.Positions{T: rows}, in: []ref.Array{drawExtent(t, num(t, 1, 2, "sequences"), rows, 9, 2)}}
}

func drawLastRow(t *rapid.T) sample {
	b, rows := num(t, 1, 2, "sequences"), num(t, 1, 4, "rows")
	return sample{op: ops.LastRow{}, in: []ref.Array{signed(t, b, rows, num(t, 1, 3, "width")), drawExtent(t, b, rows, 9, 2)}}
}

func drawRepetitionPenalty(t *rapid.T) sample {
	b, v, rows, places := num(t, 1, 2, "sequences"), num(t, 1, 9, "vocabulary"), num(t, 1, 4, "rows"), num(t, 2, 3, "places")
	penalty := ref.New(shape.F32(b))
	for i := range penalty.F {
		penalty.F[i] = rapid.SampledFrom([]float64{0.5, 1, 1.25}).Draw(t, "penalty")
	}
	return sample{op: ops.RepetitionPenalty{}, in: []ref.Array{
		signed(t, b, 1, v), indices(t, 2, places, v), indices(t, v+2, b, rows), drawExtent(t, b, rows, 5, places), penalty}}
}

func drawSeenWrite(t *rapid.T) sample {
	b, v, rows, places := num(t, 1, 2, "sequences"), num(t, 1, 9, "vocabulary"), num(t, 1, 4, "rows"), num(t, 2, 3, "places")
	return sample{op: ops.SeenWrite{}, in: []ref.Array{indices(t, 2, places, v), indices(t, v+2, b, rows), drawExtent(t, b, rows, 5, places)}}
}

func drawToken(t *rapid.T) sample {
	b := num(t, 1, 2, "sequences")
	shaping := ref.New(shape.F32(b, 2))
	for i := range b {
		shaping.F[2*i] = rapid.SampledFrom([]float64{0, 0.5, 2}).Draw(t, "temperature")
		shaping.F[2*i+1] = rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "top-p")
	}
	return sample{op: ops.Sample{}, in: []ref.Array{
		signed(t, b, 1, num(t, 1, 9, "vocabulary")), indices(t, 99, b), shaping, indices(t, 12, b, 3)}}
}

var badGenerate = map[string][]badCase{
	"cached_attention": {
		{ops.CachedAttention{Heads: 2}, metas(f(1, 2, 9), f(1, 4, 3), f(1, 4, 3), in(1, 3)), "width 9 does not split into 2 heads of queries and 2 of keys and values"},
		{ops.CachedAttention{Heads: 1}, metas(f(1, 2, 9), f(1, 4, 2), f(1, 4, 3), in(1, 3)), "keys is f32[1,4,2], expected f32[1,4,3]"},
		{ops.CachedAttention{Heads: 1}, metas(f(1, 2, 9), f(1, 4, 3), f(1, 5, 3), in(1, 3)), "values is f32[1,5,3], expected f32[1,4,3]"},
		{ops.CachedAttention{Heads: 1}, metas(f(1, 2, 9), f(1, 4, 3), f(1, 4, 3), in(2)), "extent is i32[2], expected i32[1,3]"},
	},
	"cache_write": {
		{ops.CacheWrite{Part: 3}, metas(f(1, 4, 3), f(1, 2, 9), in(1, 3)), "part 3"},
		{ops.CacheWrite{Part: 1}, metas(in(2, 4, 3), f(1, 2, 9), in(1, 3)), "cache is i32[2,4,3], expected f32[2,4,3]"},
		{ops.CacheWrite{Part: 2}, metas(f(1, 4, 3), f(1, 2, 8), in(1, 3)), "with keys of width 3"},
		{ops.CacheWrite{Part: 1}, metas(f(4, 3), f(1, 2, 9), in(1, 3)), "[places, positions, width]"},
	},
	"state_write": {
		{ops.StateWrite{}, metas(f(2, 3), f(1, 3), in(1, 3)), "states are f32[1,3], expected f32 [sequences, rows, width]"},
		{ops.StateWrite{}, metas(f(3), f(1, 2, 3), in(1, 3)), "cache is f32[3], expected f32 [places, width]"},
		{ops.StateWrite{}, metas(f(2, 4), f(1, 2, 3), in(1, 3)), "cache is f32[2,4], expected f32[2,3]"},
		{ops.StateWrite{}, metas(f(2, 3), f(1, 2, 3), in(2, 3)), "extent is i32[2,3], expected i32[1,3]"},
	},
	"positions": {
		{ops.Positions{}, metas(in(1, 3)), "chunks of 0 rows"},
		{ops.Positions{T: 2}, metas(f(1, 3)), "extent is f32[1,3], expected i32[1,3]"},
	},
	"last_row": {
		{ops.LastRow{}, metas(f(1, 3), in(1, 3)), "[sequences, rows, width]"},
		{ops.LastRow{}, metas(f(2, 1, 3), in(1, 3)), "extent is i32[1,3], expected i32[2,3]"},
	},
	"repetition_penalty": {
		{ops.RepetitionPenalty{}, metas(f(1, 2, 3), in(1, 3), in(1, 2), in(1, 3), f(1)), "one row of at least one for each sequence"},
		{ops.RepetitionPenalty{}, metas(f(1, 3), in(2, 2), in(1, 2), in(1, 3), f(1)), "seen is i32[2,2], expected i32[2,3]"},
		{ops.RepetitionPenalty{}, metas(f(1, 3), in(1, 3), in(2), in(1, 3), f(1)), "tokens are i32[2], expected i32[sequences,rows]"},
		{ops.RepetitionPenalty{}, metas(f(1, 3), in(1, 3), in(1, 2), in(1), f(1)), "extent is i32[1], expected i32[1,3]"},
		{ops.RepetitionPenalty{}, metas(f(1, 3), in(1, 3), in(1, 2), in(1, 3), f()), "penalty is f32[], expected f32[1]"},
	},
	"seen_write": {
		{ops.SeenWrite{}, metas(in(3), in(1, 2), in(1, 3)), "seen is i32[3], and tokens are i32[1,2]: expected i32[places,tokens] and i32[sequences,rows]"},
		{ops.SeenWrite{}, metas(f(1, 3), in(1, 2), in(1, 3)), "seen is f32[1,3], expected i32[1,3]"},
		{ops.SeenWrite{}, metas(in(1, 3), in(1, 2), in(1, 2)), "extent is i32[1,2], expected i32[1,3]"},
	},
	"sample": {
		{ops.Sample{}, metas(f(1, 2, 3), in(1), f(1, 2), in(1, 3)), "one row of at least one for each sequence"},
		{ops.Sample{}, metas(f(1, 3), in(2), f(1, 2), in(1, 3)), "at is i32[2], expected i32[1]"},
		{ops.Sample{}, metas(f(1, 3), in(1), f(2), in(1, 3)), "shaping is f32[2], expected f32[1,2]"},
		{ops.Sample{}, metas(f(1, 3), in(1), f(1, 2), in(3)), "choice is i32[3], expected i32[1,3]"},
	},
}

func TestOpsThatGenerateCannotBeDifferentiated(t *testing.T) {
	for _, kind := range generating {
		t.Run(kind, rapid.MakeCheck(func(t *rapid.T) {
			s := draws[kind](t)
			b := graph.NewBuilder("generating", 1)
			var in []*graph.Value
			for _, a := range s.in {
				in = append(in, b.Input("in", a.Meta))
			}
			loss := ops.Sum(b, b.One(s.op, in...), false)
			b.Gradients(loss, ops.Const(b, shape.F32(), 1), in[:1], ops.AddOp)
			if !errors.Is(b.Err(), ops.ErrNoGradient) {
				t.Fatalf("error is %v", b.Err())
			}
		}))
	}
}
