package kernelstest

import (
	"math"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

var dynamicCases = map[string]func(s Source) Sample{
	"nonzero": func(s Source) Sample { return Of(ops.Nonzero{}, 0, drawElements(s)) },
	"unique":  func(s Source) Sample { return Of(ops.Unique{}, 0, drawElements(s)) },
}

// drawElements is numbers of either type and any rank. Many of them are equal, or none are, or most are 0.
func drawElements(s Source) ref.Array {
	var x shape.Shape
	switch rapid.IntRange(0, 4).Draw(s.T, "size") {
	case 0:
		x = s.Shape("deep", 5, 8, 3)
	case 1:
		x = shape.Of(s.Dim("large", 9000))
	default:
		x = s.Shape("x", 0, 4, 9)
	}
	spread := rapid.SampledFrom([]float64{0.3, 2, 100, 1e9}).Draw(s.T, "spread")
	a := s.Floats(-spread, spread, x...)
	if s.Bool("int") {
		whole := ref.New(shape.I32(x...))
		for i, f := range a.F {
			whole.I[i] = int32(f)
		}
		return whole
	}
	if s.Bool("round") {
		for i, f := range a.F {
			a.F[i] = float64(float32(math.Round(f))) // -0 among them
		}
	}
	for i := range a.F {
		if s.Rng.IntN(20) == 0 {
			a.F[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e-45, -1e-45, 0}[s.Rng.IntN(6)]
		}
	}
	return a
}
