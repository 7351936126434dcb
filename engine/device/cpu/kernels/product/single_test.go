package product

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
)

// TestSingleRowsHaveTheSameBits: the product of one row is the same sums, whether the matrix is packed or read where it lies.
func TestSingleRowsHaveTheSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	for set := isa.AVX2; set <= isa.Best(); set++ {
		for i := range 120 {
			k, n := 1+r.IntN(900), 1+r.IntN(300)
			if i%3 == 0 {
				k = 1 + r.IntN(9)
			}
			a, b, want, got := make([]float32, k), make([]float32, k*n), make([]float32, n), make([]float32, n)
			for i := range a {
				a[i] = r.Float32() - 0.5
			}
			for i := range b {
				b[i] = r.Float32() - 0.5
			}
			g := gemm{isa: set, a: operand{data: a, rs: k, cs: 1}, b: operand{data: b, rs: 1, cs: k}, c: want, ldc: n, k: k, packed: &packedOperands{}}
			if i%2 == 0 {
				g.b.rs, g.b.cs = n, 1
			}
			if !g.isSingle(1, 1) {
				t.Fatalf("a row of %d times %d columns is not computed as one", k, n)
			}
			g.do(0, 1, 0, n)
			g.c = got
			j := r.IntN(n)
			g.doSingle(0, j)
			g.doSingle(j, n)
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%v: element %d of %d, with %d steps, is %v, expected %v", set, i, n, k, got[i], want[i])
				}
			}
		}
	}
}
