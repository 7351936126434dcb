package product

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// TestStoredHasTheSameBits: a product with a stored matrix has the sums of one with the same numbers in float32, for one row
// and for a few, wherever its cells and blocks begin.
func TestStoredHasTheSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	direct := 0
	for set := isa.Generic; set <= isa.Best(); set++ {
		for i := range 160 {
			rows, k, n := 1, 1+r.IntN(900), 1+r.IntN(700)
			if i%4 == 3 {
				rows = 2 + r.IntN(20)
			}
			if i%3 == 0 {
				k, n = 32*(1+r.IntN(40)), 64*(1+r.IntN(6))
			}
			m, turned := shape.Meta{DType: []shape.DType{shape.BFloat16, shape.Int8Block}[i%5/3], Shape: shape.Of(k, n)}, i%2 == 0
			b := operand{data: make([]float32, k*n), rs: n, cs: 1}
			if turned {
				m.Shape, b.rs, b.cs = shape.Of(n, k), 1, k
			}
			s := newStored(m, turned, set)
			s.data = storedNumbers(r, m, b.data)
			a, want, got := make([]float32, rows*k), make([]float32, rows*n), make([]float32, rows*n)
			for i := range a {
				a[i] = r.Float32() - 0.5
			}
			g := gemm{isa: set, a: operand{data: a, rs: k, cs: 1}, b: b, c: want, ldc: n, k: k}
			g.do(0, rows, 0, n)
			g.b, g.c = operand{}, got
			cut := min(n, r.IntN(n/64+1)*64)
			s.do(g, 0, rows, 0, cut, 0)
			s.do(g, 0, rows, cut, n, 0)
			if rows == 1 && s.single(&gemm{isa: set, a: g.a, c: make([]float32, n), k: min(k, g.depth())}, 0, n, 0) > 0 {
				direct++
			}
			for i := range want {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%v: element %d of %d x %d, with %d steps of %v, is %v, expected %v", set, i, rows, n, k, m, got[i], want[i])
				}
			}
		}
	}
	if direct == 0 && isa.Best() > isa.Generic {
		t.Error("no product read int8 where it lies")
	}
}

// storedNumbers are random numbers as m stores them. wide gets the same numbers.
func storedNumbers(r *rand.Rand, m shape.Meta, wide []float32) []byte {
	for i := range wide {
		wide[i] = float32(r.NormFloat64())
	}
	data := make([]byte, m.Bytes())
	if m.DType == shape.BFloat16 {
		ops.NarrowBF16(shape.View[uint16](data), wide)
	} else {
		rows, width := m.Rows()
		for i := range rows {
			ops.NarrowInt8(data[i*shape.BlocksBytes(width):], wide[i*width:][:width])
		}
	}
	ops.Widen(m, wide, data)
	return data
}
