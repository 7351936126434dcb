package kernelstest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// Source makes random arrays. Only shapes and attributes are drawn by rapid;
// the elements come from a seed that it draws.
type Source struct {
	T   *rapid.T
	Rng *rand.Rand
}

func NewSource(t *rapid.T) Source {
	seed := rapid.Uint64().Draw(t, "seed")
	return Source{t, rand.New(rand.NewPCG(seed, 1))}
}

// Dim draws a dimension from 0 to most, with 0 and 1 likely.
func (s Source) Dim(name string, most int) int {
	if rapid.IntRange(0, 19).Draw(s.T, name+"?") == 0 {
		return 0
	}
	return s.Size(name, most)
}

// Size draws a dimension from 1 to most.
func (s Source) Size(name string, most int) int { return rapid.IntRange(1, most).Draw(s.T, name) }

// Shape draws a shape of some dimensions.
func (s Source) Shape(name string, minRank, maxRank, most int) shape.Shape {
	out := make(shape.Shape, rapid.IntRange(minRank, maxRank).Draw(s.T, name+" rank"))
	for i := range out {
		out[i] = s.Dim(fmt.Sprint(name, i), most)
	}
	return out
}

// Floats are float32 numbers in (lo, hi).
func (s Source) Floats(lo, hi float64, dims ...int) ref.Array {
	a := ref.New(shape.F32(dims...))
	for i := range a.F {
		a.F[i] = float64(float32(lo + (hi-lo)*s.Rng.Float64()))
	}
	return a
}

// Normal are normal numbers.
func (s Source) Normal(dims ...int) ref.Array {
	a := ref.New(shape.F32(dims...))
	for i := range a.F {
		a.F[i] = float64(float32(s.Rng.NormFloat64()))
	}
	return a
}

// NonFinite puts NaN and infinities into some arrays.
func (s Source) NonFinite(a ref.Array) ref.Array {
	if s.Rng.IntN(3) == 0 {
		for range min(len(a.F), 1+s.Rng.IntN(4)) {
			a.F[s.Rng.IntN(len(a.F))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[s.Rng.IntN(3)]
		}
	}
	return a
}

// IDs are integers in [0, n).
func (s Source) IDs(n int, dims ...int) ref.Array {
	a := ref.New(shape.I32(dims...))
	for i := range a.I {
		a.I[i] = int32(s.Rng.IntN(n))
	}
	return a
}

// Bool draws true or false.
func (s Source) Bool(name string) bool { return rapid.Bool().Draw(s.T, name) }

// Noise are numbers in (-0.5, 0.5), always the same.
func Noise(dims ...int) ref.Array {
	rng := rand.New(rand.NewPCG(1, 1))
	a := ref.New(shape.F32(dims...))
	for i := range a.F {
		a.F[i] = float64(rng.Float32() - 0.5)
	}
	return a
}
