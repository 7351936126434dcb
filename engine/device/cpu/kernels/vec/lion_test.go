package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Lion takes the sign of a sum. Here all sums are exact, so that every instruction set has
// the same signs and bits: of multiples of an eighth, infinities and NaN.
func TestLion(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	k := &LionFactors{Grad: 0.5, Beta1: 0.75, Rest1: 0.25, Beta2: 0.875, Rest2: 0.125, Shrink: 0.5, Rate: 0.25}
	draw := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.IntN(33)-16) / 8
		}
		return x
	}
	for level, f := range tables() {
		for n := range 70 {
			w, m, g := draw(n), draw(n), draw(n)
			for i := range n {
				switch rng.IntN(10) {
				case 0:
					m[i], g[i] = 0, 0
				case 1:
					g[i] = -6 * m[i] // the sum is 0
				case 2:
					g[i] = float32(math.Inf(1 - 2*rng.IntN(2)))
				case 3:
					m[i] = float32(math.NaN())
				}
			}
			w1, m1 := make([]float32, n), make([]float32, n)
			f.Lion(w1, m1, w, m, g, k)
			for i := range n {
				at := 0.75*float64(m[i]) + 0.125*float64(g[i])
				sign := at // 0 or NaN
				if at != 0 && !math.IsNaN(at) {
					sign = math.Copysign(1, at)
				}
				wantW, wantM := float32(0.5*float64(w[i])-0.25*sign), float32(0.875*float64(m[i])+0.0625*float64(g[i]))
				if distance(w1[i], wantW) != 0 || distance(m1[i], wantM) != 0 {
					t.Fatalf("%s, element %d of %d: w %v, m %v, g %v become w %v and m %v, want %v and %v", level, i, n, w[i], m[i], g[i], w1[i], m1[i], wantW, wantM)
				}
			}
			f.Lion(w, m, w, m, g, k)
			for i := range n {
				if distance(w[i], w1[i]) != 0 || distance(m[i], m1[i]) != 0 {
					t.Fatalf("%s, element %d of %d: w %v and m %v in place, want %v and %v", level, i, n, w[i], m[i], w1[i], m1[i])
				}
			}
		}
	}
}
