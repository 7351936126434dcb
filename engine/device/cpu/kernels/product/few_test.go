package product

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
)

// TestFewRowsHaveTheSameBits: the product of a few rows is the same sums, whether the matrix is packed or read where it lies,
// in cells or as a whole, and nothing else is written.
func TestFewRowsHaveTheSameBits(t *testing.T) {
	if isa.Best() < isa.AVX512 {
		t.Skip("needs AVX-512")
	}
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		m, n, k := 2+s.Rng.IntN(mostFew-1), s.Size("n", 120), s.Size("k", 900)
		g := gemm{isa: isa.AVX512, k: k, add: s.Bool("add"), ldc: n + s.Rng.IntN(5), packed: &packedOperands{}}
		g.a = operand{data: randomFloats(s.Rng, m*k+1)[1:], rs: k, cs: 1}
		g.b = operand{data: randomFloats(s.Rng, k*n+1)[1:], rs: 1, cs: k}
		old := randomFloats(s.Rng, m*g.ldc+1)[1:]
		if s.Bool("odd") {
			for _, x := range [][]float32{g.a.data, g.b.data, old} {
				for range 1 + len(x)/100 {
					x[s.Rng.IntN(len(x))] = append(oddFloats, math.Float32frombits(0xffc54321))[s.Rng.IntN(len(oddFloats)+1)]
				}
			}
		}
		if !g.isFew(m, m) {
			if k > 1 {
				t.Fatalf("%dx%dx%d is not computed as few rows", m, k, n)
			}
			return
		}
		want, got := append([]float32(nil), old...), append([]float32(nil), old...)
		g.c = want
		g.do(0, m, 0, n)
		g.c = got
		j := s.Rng.IntN(n)
		g.doFew(m, 0, j)
		g.doFew(m, j, n)
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("%dx%dx%d: element %d of row %d is %v, expected %v", m, k, n, i%g.ldc, i/g.ldc, got[i], want[i])
			}
		}
	})
}
