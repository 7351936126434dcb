package kernels

import (
	"math"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops"
)

// TestBF16AllWays wants the reference's products in every form that the CPU
// has.
func TestBF16AllWays(t *testing.T) {
	defer func(f func() form) { fastest = f }(fastest)
	for _, f := range forms() {
		fastest = func() form { return f }
		t.Run(map[form]string{rounded: "rounded", pairs: "pairs", tiles: "tiles"}[f], func(t *testing.T) {
			t.Run("core", testCore)
			t.Run("edges", TestNothingIsReadBeyondOperands)
			t.Run("not finite", TestProductsOfNonFinite)
			t.Run("whole", testPackedAsAWhole)
			rapid.Check(t, func(t *rapid.T) {
				s := newSource(t)
				m := drawMatMul(s)
				op := m.op.(ops.MatMul)
				op.BF16 = true
				m.op = op
				checkSample(t, m, s.rng.Uint64())
			})
		})
	}
}

// odd are numbers of every kind, among them ties and the largest.
func odd(s source, n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		bits := s.rng.Uint32()
		switch s.rng.IntN(4) {
		case 0:
			bits = bits&^0xffff | 0x8000 // between two
		case 1:
			bits = bits&0x807fffff | 0x7f800000*uint32(s.rng.IntN(2)) // NaN, infinite or subnormal
		}
		f[i] = math.Float32frombits(bits)
	}
	return f
}

// TestPairsAreRounded compares all copies with the rounding of one number.
func TestPairsAreRounded(t *testing.T) {
	if Best() < AVX512 {
		return // then nothing calls them
	}
	rapid.Check(t, func(t *rapid.T) {
		s := newSource(t)
		half := func(x float32) uint16 { return uint16(math.Float32bits(ops.RoundBF16(x)) >> 16) }
		n := s.size("n", 100)
		row, out := odd(s, n), make([]float32, chunks(n, 16)*8)
		rounded := make([]float32, n)
		AVX512.round(rounded, row)
		for i, v := range rounded {
			if want := ops.RoundBF16(row[i]); math.Float32bits(v) != math.Float32bits(want) {
				t.Fatalf("%v becomes %v, want %v", row[i], v, want)
			}
		}
		AVX512.halve(&out[0], &row[0], n)
		for i, v := range unsafe.Slice((*uint16)(unsafe.Pointer(&out[0])), 2*len(out)) {
			if want := half(append(row, make([]float32, 16)...)[i]); v != want {
				t.Fatalf("%d of %d is %#x, want %#x", i, n, v, want)
			}
		}
		width, pairs := []int{8, 32}[s.rng.IntN(2)], s.size("pairs", 20)
		panel := odd(s, 2*pairs*width)
		old := append([]float32(nil), panel...)
		AVX512.pair(&panel[0], width, pairs)
		for i, v := range unsafe.Slice((*[2]uint16)(unsafe.Pointer(&panel[0])), pairs*width) {
			at := i/width*2*width + i%width
			if want := [2]uint16{half(old[at]), half(old[at+width])}; v != want {
				t.Fatalf("place %d of rows of %d is %#x, want %#x", i, width, v, want)
			}
		}
	})
}
