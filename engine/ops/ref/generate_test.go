package ref_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// extent is that of one sequence's chunk, whose place is the first.
func extent(position, count int32) ref.Array { return ref.Ints([]int32{position, count, 0}, 1, 3) }

// TestCachedAttentionInChunks: chunks of any size give the rows of causal attention over
// the whole sequence.
func TestCachedAttentionInChunks(t *testing.T) {
	const heads, d, n, context = 2, 4, 7, 9
	r := rand.New(rand.NewPCG(1, 2))
	qkv := ref.New(shape.F32(1, n, 3*d))
	for i := range qkv.F {
		qkv.F[i] = r.NormFloat64()
	}
	want := compute(t, ops.Attention{Heads: heads}, qkv)[0].F
	for rows := 1; rows <= 4; rows++ {
		keys, values := ref.New(shape.F32(1, context, d)), ref.New(shape.F32(1, context, d))
		var got []float64
		for at := 0; at < n; at += rows {
			count := min(rows, n-at)
			chunk := ref.New(shape.F32(1, rows, 3*d))
			copy(chunk.F, qkv.F[at*3*d:(at+count)*3*d])
			ext := extent(int32(at), int32(count))
			y := compute(t, ops.CachedAttention{Heads: heads}, chunk, keys, values, ext)[0].F
			got = append(got, y[:count*d]...)
			keys = compute(t, ops.CacheWrite{Part: 1}, keys, chunk, ext)[0]
			values = compute(t, ops.CacheWrite{Part: 2}, values, chunk, ext)[0]
		}
		near(t, "attention in chunks", got, want)
	}
}

func TestExtentsOutsideTheCacheAreRefused(t *testing.T) {
	for _, e := range []ref.Array{extent(-1, 1), extent(0, 0), extent(0, 3), extent(3, 2)} {
		_, err := ref.Run(ops.CacheWrite{Part: 1}, []ref.Array{ref.New(shape.F32(1, 4, 1)), ref.New(shape.F32(1, 2, 3)), e})
		if err == nil || !strings.Contains(err.Error(), "a chunk has 1 to 2, and the cache has 4 positions") {
			t.Errorf("extent %v: %v", e.I, err)
		}
	}
	for _, place := range []int32{-1, 3} {
		_, err := ref.Run(ops.CacheWrite{Part: 1}, []ref.Array{ref.New(shape.F32(3, 4, 1)), ref.New(shape.F32(1, 2, 3)), ref.Ints([]int32{0, 1, place}, 1, 3)})
		if err == nil || !strings.Contains(err.Error(), "the cache has 3") {
			t.Errorf("place %d: %v", place, err)
		}
	}
}

// TestSampleShares: of many draws, each token has the share that temperature, top-k and
// top-p leave it.
func TestSampleShares(t *testing.T) {
	logits := []float64{0, 2, 1, 2} // weights with temperature 1: 1, 7.39, 2.72, 7.39
	for _, c := range []struct {
		temperature, topP float64
		topK              int32
		want              []float64
	}{
		{1, 1, 0, []float64{0.054, 0.3995, 0.147, 0.3995}},
		{0, 1, 0, []float64{0, 1, 0, 0}},
		{1, 1, 1, []float64{0, 1, 0, 0}},
		{1, 1, 3, []float64{0, 0.4225, 0.155, 0.4225}},
		{1, 0.39, 0, []float64{0, 1, 0, 0}},
		{1, 0.41, 0, []float64{0, 0.5, 0, 0.5}},
		{1, 0.83, 3, []float64{0, 0.5, 0, 0.5}}, // of the three that top-k leaves, two are 0.845
		{2, 1, 0, []float64{0.1216, 0.3389, 0.2006, 0.3389}},
	} {
		const draws = 4000
		count := make([]float64, 4)
		for i := range draws {
			y := compute(t, ops.Sample{}, ref.Floats(logits, 1, 4), ref.Ints([]int32{int32(i)}, 1),
				ref.Floats([]float64{c.temperature, c.topP}, 1, 2), ref.Ints([]int32{c.topK, 7, 8}, 1, 3))
			count[y[0].I[0]] += 1.0 / draws
		}
		if !slices.EqualFunc(count, c.want, func(a, b float64) bool { return max(a-b, b-a) < 0.035 && (b > 0 || a == 0) }) {
			t.Errorf("%+v: shares are %.3f", c, count)
		}
	}
}

// Of tokens 0 to 4, the text had 1 and 2, and the chunk brings 3: their logits are divided
// by 2 or multiplied with it. A chunk at position 0 begins a text.
func TestRepetitionPenalty(t *testing.T) {
	logits, seen := ref.Floats([]float64{4, 3, -1, 0.5, -2}, 1, 1, 5), ref.Ints([]int32{0, 1, 1, 0, 0}, 1, 5)
	tokens, penalty := ref.Ints([]int32{3, 0}, 1, 2), ref.Floats([]float64{2}, 1)
	for _, c := range []struct {
		position, count int32
		want            []float64
		seen            []int32
	}{
		{7, 1, []float64{4, 1.5, -2, 0.25, -2}, []int32{0, 1, 1, 1, 0}},
		{7, 2, []float64{2, 1.5, -2, 0.25, -2}, []int32{1, 1, 1, 1, 0}},
		{0, 1, []float64{4, 3, -1, 0.25, -2}, []int32{0, 0, 0, 1, 0}},
	} {
		near(t, "logits", compute(t, ops.RepetitionPenalty{}, logits, seen, tokens, extent(c.position, c.count), penalty)[0].F, c.want)
		if got := compute(t, ops.SeenWrite{}, seen, tokens, extent(c.position, c.count))[0].I; !slices.Equal(got, c.seen) {
			t.Errorf("at %d, the text has %v, want %v", c.position, got, c.seen)
		}
	}
}
