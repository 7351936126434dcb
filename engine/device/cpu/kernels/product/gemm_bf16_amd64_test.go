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
	"github.com/berth-ml/berth/internal/testall"
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

// TestVectorsAreRounded compares round with the rounding of one number.
func TestVectorsAreRounded(t *testing.T) {
	if isa.Best() < isa.AVX512 {
		return // then nothing calls it
	}
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		row := allKinds(s, s.Size("n", 100))
		rounded := make([]float32, len(row))
		round(isa.AVX512, rounded, row)
		for i, v := range rounded {
			if want := ops.RoundBF16(row[i]); math.Float32bits(v) != math.Float32bits(want) {
				t.Fatalf("%v becomes %v, want %v", row[i], v, want)
			}
		}
	})
}

// isHalf reports whether h is x as a factor of a pair: rounded, but subnormal numbers are zeros.
func isHalf(h uint16, x float32) bool {
	want := uint16(math.Float32bits(ops.RoundBF16(x)) >> 16)
	if want&0x7f80 == 0 {
		want &= 0x8000
	}
	return h == want
}

// TestPairsAreRounded compares all copies with the rounding of one number.
func TestPairsAreRounded(t *testing.T) {
	if !cpu.X86.HasAVX512BF16 {
		return // then nothing calls them
	}
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		rows, k, apart := s.Size("rows", 8), s.Size("k", 100), s.Rng.IntN(3)
		row := func() []float32 { return make([]float32, work.CeilDiv(k, 32)*16) }
		src, out := allKinds(s, rows*(k+apart)), make([]float32, rows*len(row()))
		halve(&out[0], len(row()), &src[0], k+apart, rows, k)
		for i, v := range unsafe.Slice((*uint16)(unsafe.Pointer(&out[0])), 2*len(out)) {
			r, j := i/(2*len(row())), i%(2*len(row()))
			if x := append(src[r*(k+apart):][:k:k], make([]float32, 32)...)[j]; !isHalf(v, x) {
				t.Fatalf("%v, number %d of row %d, becomes %#x", x, j, r, v)
			}
		}
		src, out = allKinds(s, k*(rows+apart)), make([]float32, work.CeilDiv(k, 4)*16)
		gatherPairs(&out[0], &src[0], rows+apart, rows, k)
		for i, v := range unsafe.Slice((*uint16)(unsafe.Pointer(&out[0])), 2*len(out)) {
			column, r, x := i/16*2+i%2, i/2%8, float32(0)
			if column < k && r < rows {
				x = src[column*(rows+apart)+r]
			}
			if !isHalf(v, x) {
				t.Fatalf("%v, number %d of column %d, becomes %#x", x, r, column, v)
			}
		}
		cols := s.Size("cols", 100)
		step := work.CeilDiv(k, 2)*32 + 16*apart
		src, out = allKinds(s, k*(cols+apart)), make([]float32, work.CeilDiv(cols, 32)*step)
		spreadPairs(&out[0], step, &src[0], cols+apart, cols, k)
		for j := range work.CeilDiv(cols, 32) * 32 {
			for i := range work.CeilDiv(k, 2) * 2 {
				word, x := math.Float32bits(out[j/32*step+i/2*32+j%32]), float32(0)
				if i < k && j < cols {
					x = src[i*(cols+apart)+j]
				}
				if v := uint16(word >> (i % 2 * 16)); !isHalf(v, x) {
					t.Fatalf("%v, number %d of row %d, becomes %#x", x, j, i, v)
				}
			}
		}
		words, distance := s.Size("words", 100), s.Size("distance", 40)
		src = allKinds(s, words+distance)
		out = append([]float32(nil), src...)
		pairApart(&out[0], distance, words)
		for i, v := range out[:words] {
			word := math.Float32bits(v)
			if !isHalf(uint16(word), src[i]) || !isHalf(uint16(word>>16), src[i+distance]) {
				t.Fatalf("%v and %v become %#x", src[i], src[i+distance], word)
			}
		}
		if !slices.EqualFunc(out[words:], src[words:], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatal("numbers behind the last pair were changed")
		}
		for _, width := range []int{16, 32, 48} {
			pairs := s.Size("pairs", 20)
			src = allKinds(s, 2*pairs*width)
			out = append([]float32(nil), src...)
			pairRows(out, width, pairs)
			for i, v := range out[:pairs*width] {
				word, at := math.Float32bits(v), i/width*2*width+i%width
				if !isHalf(uint16(word), src[at]) || !isHalf(uint16(word>>16), src[at+width]) {
					t.Fatalf("rows of %d: %v and %v become %#x", width, src[at], src[at+width], word)
				}
			}
		}
	})
}

// TestEveryNumberIsRounded wants the bits of ops.RoundBF16 for numbers with any sign, exponent and seven leading
// bits, in all copies; with TEST_ALL, for all numbers.
func TestEveryNumberIsRounded(t *testing.T) {
	if !cpu.X86.HasAVX512BF16 {
		return
	}
	lows := []uint32{0, 1, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff}
	if testall.Wanted() {
		lows = lows[:0]
		for low := range uint32(1 << 16) {
			lows = append(lows, low)
		}
	}
	const n = 1 << 16
	src, out := make([]float32, n), make([]float32, n)
	halves := unsafe.Slice((*uint16)(unsafe.Pointer(&out[0])), n)
	for _, low := range lows {
		for high := range uint32(n) {
			src[high] = math.Float32frombits(high<<16 | low)
		}
		for name, copies := range map[string]func(){
			"halve":       func() { halve(&out[0], 0, &src[0], 0, 1, n) },
			"gatherPairs": func() { gatherPairs(&out[0], &src[0], 8, 8, n/8) },
			"spreadPairs": func() { spreadPairs(&out[0], 0, &src[0], 32, 32, n/32) },
		} {
			copies()
			for i, v := range halves {
				at := i
				switch name {
				case "gatherPairs":
					at = i/16*16 + i%2*8 + i/2%8
				case "spreadPairs":
					at = i/64*64 + i%2*32 + i/2%32
				}
				if !isHalf(v, src[at]) {
					t.Fatalf("%s: %#x becomes %#x", name, math.Float32bits(src[at]), v)
				}
			}
		}
	}
}

// TestSubnormalFactorsAreZeros multiplies pairs of subnormal numbers, and of zeros of their signs, with numbers of every kind: copies
// that make them zeros change no product.
func TestSubnormalFactorsAreZeros(t *testing.T) {
	if !cpu.X86.HasAVX512BF16 {
		return
	}
	const n = 1 << 16
	b := make([]float32, n)
	for i := range b {
		b[i] = math.Float32frombits(uint32(i) | uint32(i)<<16)
	}
	var sums, want [n]float32
	for tiny := uint32(1); tiny < 0x80; tiny++ {
		for _, sign := range []uint32{0, 0x8000} {
			factor := math.Float32frombits(tiny | sign | 0x3f800000)
			zero := math.Float32frombits(sign | 0x3f800000)
			gemmPairs(&sums[0], n, &factor, 1, 1, &b[0], 32, 32, 1, n, 1, 0)
			gemmPairs(&want[0], n, &zero, 1, 1, &b[0], 32, 32, 1, n, 1, 0)
			for i := range sums {
				if math.Float32bits(sums[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%#x times %#x is %v, want %v", tiny|sign, i, sums[i], want[i])
				}
			}
		}
	}
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
