package sweep

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"

	"github.com/berth-ml/berth/configs"
)

// halton gives the points of a scrambled Halton sequence. A point does not depend on how many there are: gonum draws the same
// permutations of digits for any number.
func halton(s *configs.Sweep) func(k int) []float64 {
	var points *mat.Dense
	return func(k int) []float64 {
		if points == nil || k >= points.RawMatrix().Rows {
			points = mat.NewDense(max(64, s.Total(), 2*k), len(s.Vary), nil)
			samplemv.Halton{Kind: samplemv.Owen, Q: distmv.NewUnitUniform(len(s.Vary), nil), Src: rand.NewPCG(s.Seed, 0)}.Sample(points)
		}
		return points.RawRowView(k)
	}
}
