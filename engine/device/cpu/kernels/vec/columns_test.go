package vec

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestColumnsAgreeWithGeneric puts numbers that are not finite into some of the
// matrices, and guards what lies between their rows and around all arrays.
func TestColumnsAgreeWithGeneric(t *testing.T) {
	eachTable(t, func(t *rapid.T, f *Funcs, rng *rand.Rand, n int) {
		rows, stride := rng.IntN(9), n+rng.IntN(20)
		var m [3][2][]float32 // matrices, each twice
		var tables [2][4][]float32
		var intact []func() bool
		guard := func(x []float32) []float32 {
			y, ok := guarded(x, rng)
			intact = append(intact, ok)
			return y
		}
		for i := range m {
			x := ordinary(rng, max(0, rows-1)*stride+n)
			if rng.IntN(4) == 0 && len(x) > 0 {
				x[rng.IntN(len(x))] = special[len(special)-1-rng.IntN(3)]
			}
			m[i] = [2][]float32{guard(x), guard(x)}
		}
		for i := range tables[0] {
			x := ordinary(rng, n)
			tables[0][i], tables[1][i] = guard(x), guard(x)
		}
		for _, call := range []struct {
			name string
			of   func(f *Funcs, acc, means []float64, m [3][]float32, t [4][]float32)
		}{
			{"SumRows", func(f *Funcs, acc, _ []float64, m [3][]float32, _ [4][]float32) { f.SumRows(acc, m[0], stride, rows) }},
			{"MaxRows", func(f *Funcs, acc, _ []float64, m [3][]float32, _ [4][]float32) { f.MaxRows(acc, m[0], stride, rows) }},
			{"SumEach", func(f *Funcs, acc, _ []float64, m [3][]float32, _ [4][]float32) {
				f.SumEach(acc[:min(rows, n)], m[0], stride, n)
			}},
			{"MaxEach", func(f *Funcs, acc, _ []float64, m [3][]float32, _ [4][]float32) {
				f.MaxEach(acc[:min(rows, n)], m[0], stride, n)
			}},
			{"SquaresRows", func(f *Funcs, acc, means []float64, m [3][]float32, _ [4][]float32) {
				f.SquaresRows(acc, means, m[0], stride, rows)
			}},
			{"DotRows", func(f *Funcs, acc, means []float64, m [3][]float32, _ [4][]float32) {
				f.DotRows(acc, means, m[0], m[1], stride, rows)
			}},
			{"ScaleRows", func(f *Funcs, _, _ []float64, m [3][]float32, t [4][]float32) {
				f.ScaleRows(m[2], m[0], t[0], t[1], t[2], t[3], stride, rows)
			}},
			{"ScaleGrad", func(f *Funcs, _, _ []float64, m [3][]float32, t [4][]float32) {
				f.ScaleGrad(m[2], m[0], m[1], t[0], t[1], t[2], t[3], stride, rows)
			}},
			{"FirstRows", func(f *Funcs, _, _ []float64, m [3][]float32, t [4][]float32) {
				for j := range n {
					if rows > 0 && j%3 > 0 {
						t[0][j] = m[0][(j%rows)*stride+j] // so that some are found
					}
				}
				f.FirstRows(m[2], m[0], t[0], t[1], stride, rows)
			}},
			{"ScaleGrad in place", func(f *Funcs, _, _ []float64, m [3][]float32, t [4][]float32) {
				f.ScaleGrad(m[0], m[0], m[1], t[0], t[1], t[2], t[3], stride, rows)
			}},
		} {
			acc, means := make([]float64, n+2), make([]float64, n)
			for j := range means {
				acc[j+1], means[j] = rng.NormFloat64(), rng.NormFloat64()
			}
			want := append([]float64(nil), acc...)
			call.of(f, acc[1:n+1:n+1], means, [3][]float32{m[0][0], m[1][0], m[2][0]}, tables[0])
			call.of(&Generic, want[1:n+1:n+1], means, [3][]float32{m[0][1], m[1][1], m[2][1]}, tables[1])
			for i := range m {
				same(t, call.name, m[i][0], m[i][1], 1e-5)
			}
			same(t, call.name, narrow(acc), narrow(want), 1e-6)
			for _, ok := range intact {
				if !ok() {
					t.Fatalf("%s: wrote outside", call.name)
				}
			}
		}
	})
}

// narrow rounds to float32.
func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}
