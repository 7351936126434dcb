package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// TestCore multiplies submatrices of larger, unaligned ones, in every layout,
// and wants the bits of the same elements computed one by one, and nothing
// else changed.
func TestCore(t *testing.T) { atLevels(t, testCore) }

func testCore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSource(t)
		m, n, k := s.size("m", 40), s.size("n", 90), s.size("k", 900)
		forms := formsHere()
		g := gemm{isa: Using(), k: k, add: s.bool("add"), format: forms[s.rng.IntN(len(forms))], ldc: n + s.rng.IntN(5)}
		g.a, g.b = randomOperand(s, "transA", m, k), randomOperand(s, "transB", k, n)
		g.c = randomFloats(s.rng, m*g.ldc+1)[1:]
		old := append([]float32(nil), g.c...)
		g.do(0, m, 0, n)
		for i := range m {
			for j := n; j < g.ldc && i*g.ldc+j < len(old); j++ {
				if g.c[i*g.ldc+j] != old[i*g.ldc+j] {
					t.Fatalf("element (%d,%d), beyond %d columns, was written", i, j, n)
				}
			}
		}
		for range 50 {
			i, j := s.rng.IntN(m), s.rng.IntN(n)
			one := g
			one.a.data, one.b.data = g.a.data[i*g.a.rs:], g.b.data[j*g.b.cs:]
			one.c = []float32{old[i*g.ldc+j]}
			one.do(0, 1, 0, 1)
			if one.c[0] != g.c[i*g.ldc+j] {
				t.Fatalf("element (%d,%d) is %v within %dx%d and %v alone", i, j, g.c[i*g.ldc+j], m, n, one.c[0])
			}
			if want := exact(&g, i, j, old[i*g.ldc+j]); math.Abs(want-float64(one.c[0])) > 1e-4 {
				t.Fatalf("element (%d,%d) is %v, want %v", i, j, one.c[0], want)
			}
		}
	})
}

// formsHere are all forms of the level in use, also where they do not pay.
func formsHere() []format {
	l := Using()
	forms := []format{formatFloat, l.formatOf(true, 1, 1, 1)}
	if l == AMX {
		forms = append(forms, formatSplit)
	}
	return forms
}

// exact is element (i, j) in float64.
func exact(g *gemm, i, j int, old float32) float64 {
	sum := 0.0
	if g.add {
		sum = float64(old)
	}
	for k := range g.k {
		a, b := g.a.data[i*g.a.rs+k*g.a.cs], g.b.data[k*g.b.rs+j*g.b.cs]
		if g.format != formatFloat && g.format != formatSplit {
			a, b = ops.RoundBF16(a), ops.RoundBF16(b)
		}
		sum += float64(a) * float64(b)
	}
	return sum
}

// randomOperand is a matrix inside a larger one, whose rows or columns may be
// far apart.
func randomOperand(s source, trans string, rows, cols int) operand {
	wide, far := max(rows, cols)+s.rng.IntN(4), 0
	if s.bool(trans + " far") {
		far = isaSizes[AVX512].reach / 256
	}
	data := randomFloats(s.rng, (wide+far)*max(rows, cols)+3)[3:]
	if s.bool(trans) {
		return operand{data, 1, wide + far}
	}
	return operand{data, wide + far, 1}
}

func randomFloats(rng *rand.Rand, n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = rng.Float32() - 0.5
	}
	return f
}

// TestProductsOfNonFinite wants NaN and infinities exactly where IEEE 754 has
// them, at every place of a tile.
func TestProductsOfNonFinite(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32} {
			for _, m := range []int{1, 7, 19, 150} {
				n, k := 37, 21
				if m > 100 {
					n, k = 203, 133 // splitting pays
				}
				a, b := noise(m, k), noise(k, n)
				row, col, at := m/2, n-2, k-1
				a.F[row*k+at], b.F[at*n+col] = v, 0
				b.F[3*n+5] = v
				checkSample(t, sample{ops.MatMul{}, []ref.Array{a, b}, 2e-6}, 3)
				checkSample(t, sample{ops.MatMul{BF16: true}, []ref.Array{a, b}, 2e-6}, 3)
			}
		}
	})
}

// TestPartsGiveTheSameBits compares products whose blocks of K, or samples, are
// shared among threads with the same elements inside larger products.
func TestPartsGiveTheSameBits(t *testing.T) { atLevels(t, testParts) }

func testParts(t *testing.T) {
	const k = 5000
	a, b := noise(64, k), noise(k, 512)
	for _, s := range [][2]int{{1, 1}, {3, 9}, {16, 16}, {9, 70}} {
		m, n := s[0], s[1]
		t.Run(fmt.Sprint(m, "x", n), func(t *testing.T) {
			part := productBits(t, a, b, m, n, k)
			whole := coreBits(a, b, Using().formatOf(false, m, n, k))
			for i := range m * n {
				if part[i] != whole[i/n*512+i%n] {
					t.Fatalf("element (%d,%d) has other bits than in a larger product", i/n, i%n)
				}
			}
		})
	}
}

// coreBits is a*b by the core alone.
func coreBits(a, b ref.Array, f format) []float32 {
	m, k, n := a.Meta.Shape[0], a.Meta.Shape[1], b.Meta.Shape[1]
	g := gemm{isa: Using(), format: f, k: k, ldc: n, a: operand{rs: k, cs: 1}, b: operand{rs: n, cs: 1}, c: make([]float32, m*n)}
	g.a.data, g.b.data = floats(load(a).mem, m*k), floats(load(b).mem, k*n)
	g.do(0, m, 0, n)
	return g.c
}

// TestSmallProductsAreShared wants several chunks of products with long sums,
// without allocations.
func TestSmallProductsAreShared(t *testing.T) {
	for _, s := range [][3]int{{10, 256, 2048}, {32, 9, 4000}, {8, 8, 6000}, {128, 128, 512}} {
		l, err := prepare(ops.MatMul{}, []ref.Array{noise(s[0], s[2]), noise(s[2], s[1])}, nil)
		if err != nil {
			t.Fatal(err)
		}
		k := l.kernel.(*matmul)
		if c := k.grid.chunks() * k.partials.count; c < 4 {
			t.Errorf("%v makes %d chunks", s, c)
		}
		n := testing.AllocsPerRun(3, func() {
			if err := l.kernel.Run(serial{}, &l.args); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%v allocates %v times", s, n)
		}
	}
}

// TestLayoutsOfLevels: what a kernel of one level keeps is no use to one of another,
// and they must not take it for theirs.
func TestLayoutsOfLevels(t *testing.T) {
	defer Use(Using())
	seen := map[string]ISA{}
	for l := Generic; l <= Best(); l++ {
		Use(l)
		run, err := prepare(ops.MatMul{BF16: true}, []ref.Array{ref.New(shape.F32(40, 56)), ref.New(shape.F32(56, 72))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, bytes, layout := run.kernel.(Keeper).Keeps()
		if other, ok := seen[layout]; ok || bytes == 0 {
			t.Errorf("%v keeps %d bytes as %q, like %v", l, bytes, layout, other)
		}
		seen[layout] = l
	}
}
