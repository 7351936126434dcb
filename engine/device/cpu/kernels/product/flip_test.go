package product

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
)

// TestFlippedProductsHaveTheSameBits: a row times a transposed matrix is the same sums,
// whether the matrix is packed or the product is flipped.
func TestFlippedProductsHaveTheSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	for set := isa.AVX2; set <= isa.Best(); set++ {
		for range 30 {
			k, n := 1+r.IntN(900), 1+r.IntN(200)
			a, b, want, got := make([]float32, k), make([]float32, k*n), make([]float32, n), make([]float32, n)
			for i := range a {
				a[i] = r.Float32() - 0.5
			}
			for i := range b {
				b[i] = r.Float32() - 0.5
			}
			g := gemm{isa: set, a: operand{data: a, rs: k, cs: 1}, b: operand{data: b, rs: 1, cs: k}, c: want, ldc: n, k: k, packed: &packedOperands{}}
			if k > 1 && !g.flips(1, 1) {
				t.Fatalf("a row of %d times %d columns is not flipped", k, n)
			}
			g.do(0, 1, 0, n)
			g.c = got
			j := r.IntN(n)
			g.doFlipped(0, j)
			g.doFlipped(j, n)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%v: element %d of %d, with %d steps, is %v, expected %v", set, i, n, k, got[i], want[i])
				}
			}
		}
	}
}
