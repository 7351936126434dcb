package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/cpu"
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/ops"
)

// TestBF16AllWays wants the reference's products in every form that the CPU
// has.
func TestBF16AllWays(t *testing.T) {
	if isa.Best() < isa.AVX512 || !cpu.X86.HasAVX512BF16 {
		return // then there is one way, which other tests go
	}
	for _, pairs := range []bool{false, true} {
		r := rig.With(isa.AVX512)
		r.On.Pairs = pairs
		t.Run(fmt.Sprint("pairs ", pairs), func(t *testing.T) {
			for name, test := range map[string]func(t *testing.T, r kernelstest.Rig){
				"core": testCore, "edges": testEdges, "not finite": testNonFiniteProducts, "whole": testPackedAsAWhole, "reference": testBF16Products, "attention": testBF16Attention,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, r)
				})
			}
		})
	}
}

func testBF16Products(t *testing.T, r kernelstest.Rig) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		m := kernelstest.DrawMatMul(s)
		op := m.Op.(ops.MatMul)
		op.BF16 = true
		m.Op = op
		r.Check(t, m, s.Rng.Uint64())
	})
}

func testBF16Attention(t *testing.T, r kernelstest.Rig) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		for _, kind := range []string{"attention", "attention_grad"} {
			m := kernelstest.Cases[kind](s)
			if op, ok := m.Op.(ops.Attention); ok && !op.BF16 {
				op.BF16 = true
				m.Op, m.Tol = op, kernelstest.RoundedAttention
			}
			if op, ok := m.Op.(ops.AttentionGrad); ok && !op.BF16 {
				op.BF16 = true
				m.Op, m.Tol = op, kernelstest.RoundedAttention
			}
			r.Check(t, m, s.Rng.Uint64())
		}
	})
}

// allKinds are numbers of every kind, among them ties and the largest.
func allKinds(s kernelstest.Source, n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		bits := s.Rng.Uint32()
		switch s.Rng.IntN(4) {
		case 0:
			bits = bits&^0xffff | 0x8000 // between two
		case 1:
			bits = bits&0x807fffff | 0x7f800000*uint32(s.Rng.IntN(2)) // NaN, infinite or subnormal
		}
		f[i] = math.Float32frombits(bits)
	}
	return f
}

// TestPairsAreRounded compares all copies with the rounding of one number.
func TestPairsAreRounded(t *testing.T) {
	if isa.Best() < isa.AVX512 {
		return // then nothing calls them
	}
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		half := func(x float32) uint16 { return uint16(math.Float32bits(ops.RoundBF16(x)) >> 16) }
		n := s.Size("n", 100)
		row, out := allKinds(s, n), make([]float32, work.CeilDiv(n, 16)*8)
		rounded := make([]float32, n)
		round(isa.AVX512, rounded, row)
		for i, v := range rounded {
			if want := ops.RoundBF16(row[i]); math.Float32bits(v) != math.Float32bits(want) {
				t.Fatalf("%v becomes %v, want %v", row[i], v, want)
			}
		}
		halve(&out[0], &row[0], n)
		for i, v := range unsafe.Slice((*uint16)(unsafe.Pointer(&out[0])), 2*len(out)) {
			if want := half(append(row, make([]float32, 16)...)[i]); v != want {
				t.Fatalf("%d of %d is %#x, want %#x", i, n, v, want)
			}
		}
		width, pairs := []int{8, 32}[s.Rng.IntN(2)], s.Size("pairs", 20)
		panel := allKinds(s, 2*pairs*width)
		old := append([]float32(nil), panel...)
		pairRows(&panel[0], width, pairs)
		for i, v := range unsafe.Slice((*[2]uint16)(unsafe.Pointer(&panel[0])), pairs*width) {
			at := i/width*2*width + i%width
			if want := [2]uint16{half(old[at]), half(old[at+width])}; v != want {
				t.Fatalf("place %d of rows of %d is %#x, want %#x", i, width, v, want)
			}
		}
	})
}

// TestSplitsAreExact wants the terms of every number to add up to it, and unsplittable
// values to be found.
func TestSplitsAreExact(t *testing.T) {
	if isa.Best() < isa.AMX {
		return // then nothing calls them
	}
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		rows, k := s.Size("rows", 32), s.Size("k", 200)
		src := allKinds(s, rows*k)
		if s.Bool("even") {
			for i, x := range src {
				if isUnsplittable(x) {
					src[i] = s.Rng.Float32()
				}
			}
		}
		dst := make([]float32, formatSplit.panelWords(k))
		found := packTilesOfRows(formatSplit, &dst[0], &src[0], k, rows, k)
		if want := slices.ContainsFunc(src, isUnsplittable); found != want {
			t.Fatalf("found unsplittable values: %v, want %v", found, want)
		}
		halves := unsafe.Slice((*uint16)(unsafe.Pointer(&dst[0])), 2*len(dst))
		for i, x := range src {
			row, step := i/k, i%k
			sum := float32(0)
			for term := 2; term >= 0; term-- {
				at := (step/tileSteps*3+term)*2*tileWords + row*16 + step%16
				sum += math.Float32frombits(uint32(halves[2*at+step%tileSteps/16]) << 16)
			}
			if small := math.Abs(float64(x)) < 1e-33; !isUnsplittable(x) && sum != x && !small {
				t.Fatalf("the terms of %v (%#x) add up to %v", x, math.Float32bits(x), sum)
			}
		}
	})
}

// TestSplitIsAsExactAsVectors compares how far both are from float64, in units of
// the sums of magnitudes.
func TestSplitIsAsExactAsVectors(t *testing.T) {
	if isa.Best() < isa.AMX {
		return
	}
	const m, n = 64, 64
	rng := rand.New(rand.NewPCG(3, 4))
	for _, k := range []int{64, 300, 4000} {
		var worst, mean [2]float64
		a, b := make([]float32, m*k), make([]float32, k*n)
		for _, f := range [][]float32{a, b} {
			for i := range f {
				f[i] = float32(rng.NormFloat64() * math.Exp(3*rng.NormFloat64()))
			}
		}
		for i, f := range []format{formatFloat, formatSplit} {
			g := gemm{isa: isa.AMX, format: f, k: k, ldc: n, a: operand{a, k, 1}, b: operand{b, n, 1}, c: make([]float32, m*n)}
			g.do(0, m, 0, n)
			for e, v := range g.c {
				sum, size := 0.0, 0.0
				for l := range k {
					p := float64(a[e/n*k+l]) * float64(b[l*n+e%n])
					sum, size = sum+p, size+math.Abs(p)
				}
				off := math.Abs(float64(v)-sum) / size
				worst[i], mean[i] = max(worst[i], off), mean[i]+off/(m*n)
			}
		}
		t.Logf("K %d: off by %.3g at most, %.3g on average; by vectors %.3g, %.3g", k, worst[1], mean[1], worst[0], mean[0])
		if worst[1] > worst[0] || mean[1] > mean[0] {
			t.Error("vectors are more exact")
		}
	}
}

// TestAttentionCopiesRound compares what attention in pairs copies with the rounding of one
// number. What is below the least normal number may be zero.
func TestAttentionCopiesRound(t *testing.T) {
	if isa.Best() < isa.AVX512 || !cpu.X86.HasAVX512BF16 {
		return // then nothing calls them
	}
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		half := func(x float32) uint16 { return uint16(math.Float32bits(ops.RoundBF16(x)) >> 16) }
		same := func(where string, got, want uint16) {
			if got != want && max(got&0x7fff, want&0x7fff) > 0x80 {
				t.Fatalf("%s is %#x, expected %#x", where, got, want)
			}
		}
		rows, cols := s.Size("rows", 9), s.Size("cols", 100)
		words, stride := halfWords(cols), work.CeilDiv(cols, 16)*16+s.Size("more", 20)
		x := allKinds(s, rows*stride)
		finite := true
		for i := range rows {
			for _, v := range x[i*stride:][:cols] {
				finite = finite && !math.IsInf(float64(ops.RoundBF16(v)), 0) && v == v
			}
		}
		halves := make([]float32, rows*words)
		if got := halveRows(&halves[0], words, &x[0], stride, cols, rows); got != finite {
			t.Fatalf("finite: got %v, expected %v", got, finite)
		}
		of := func(words []float32, j int) uint16 {
			return uint16(math.Float32bits(words[j/2]) >> (j % 2 * 16))
		}
		for i := range rows {
			for j := range 2 * words {
				want := uint16(0)
				if j < cols {
					want = half(x[i*stride+j])
				}
				same(fmt.Sprintf("halved number %d of row %d", j, i), of(halves[i*words:], j), want)
			}
		}
		step := 32*work.CeilDiv(rows, 2) + s.Size("apart", 20)
		panels := make([]float32, work.CeilDiv(cols, 32)*step)
		spreadHalves(&panels[0], step, &halves[0], words, cols, rows)
		for i := range 2 * work.CeilDiv(rows, 2) {
			for j := range cols {
				want := uint16(0)
				if i < rows {
					want = half(x[i*stride+j])
				}
				same(fmt.Sprintf("column %d of row %d in pairs", j, i), of(panels[j/32*step+i/2*32+j%32:], i%2), want)
			}
		}
		if rows < 2 {
			return
		}
		step = 16*(rows/2) + s.Size("apart", 20)
		made := make([]float32, work.CeilDiv(cols, 16)*step)
		strips(&made[0], step, &x[0], stride, cols, rows/2)
		for i := range rows / 2 * 2 {
			for j := range cols {
				same(fmt.Sprintf("column %d of row %d in strips", j, i), of(made[j/16*step+i/2*16+j%16:], i%2), half(x[i*stride+j]))
			}
		}
	})
}
