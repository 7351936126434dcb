package product

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// TestCore multiplies submatrices of larger, unaligned ones, in every layout,
// and wants the bits of the same elements computed one by one, and nothing
// else changed.
func TestCore(t *testing.T) { rig.EachISA(t, testCore) }

func testCore(t *testing.T, r kernelstest.Rig) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernelstest.NewSource(t)
		m, n, k := s.Size("m", 40), s.Size("n", 90), s.Size("k", 900)
		formats := formatsOf(r.On)
		g := gemm{isa: r.On.ISA, k: k, add: s.Bool("add"), format: formats[s.Rng.IntN(len(formats))], ldc: n + s.Rng.IntN(5)}
		g.a, g.b = randomOperand(s, "transA", m, k), randomOperand(s, "transB", k, n)
		g.c = randomFloats(s.Rng, m*g.ldc+1)[1:]
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
			i, j := s.Rng.IntN(m), s.Rng.IntN(n)
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

// formatsOf are all formats of a target, also where they do not pay.
func formatsOf(on work.Target) []format {
	formats := []format{formatFloat, formatOf(on, true, 1, 1, 1)}
	if on.ISA == isa.AMX {
		formats = append(formats, formatSplit)
	}
	return formats
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
func randomOperand(s kernelstest.Source, trans string, rows, cols int) operand {
	wide, far := max(rows, cols)+s.Rng.IntN(4), 0
	if s.Bool(trans + " far") {
		far = isaSizes[isa.AVX512].reach / 256
	}
	data := randomFloats(s.Rng, (wide+far)*max(rows, cols)+3)[3:]
	if s.Bool(trans) {
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
func TestProductsOfNonFinite(t *testing.T) { rig.EachISA(t, testNonFiniteProducts) }

func testNonFiniteProducts(t *testing.T, r kernelstest.Rig) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32} {
		for _, m := range []int{1, 7, 19, 150} {
			n, k := 37, 21
			if m > 100 {
				n, k = 203, 133 // splitting pays
			}
			a, b := kernelstest.Noise(m, k), kernelstest.Noise(k, n)
			row, col, at := m/2, n-2, k-1
			a.F[row*k+at], b.F[at*n+col] = v, 0
			b.F[3*n+5] = v
			r.Check(t, kernelstest.Of(ops.MatMul{}, 2e-6, a, b), 3)
			r.Check(t, kernelstest.Of(ops.MatMul{BF16: true}, 2e-6, a, b), 3)
		}
	}
}

// TestPartialSumsGiveTheSameBits compares products whose blocks of K, or samples, are
// shared among threads with the same elements inside larger products.
func TestPartialSumsGiveTheSameBits(t *testing.T) { rig.EachISA(t, testPartials) }

func testPartials(t *testing.T, r kernelstest.Rig) {
	const k = 5000
	a, b := kernelstest.Noise(64, k), kernelstest.Noise(k, 512)
	for _, s := range [][2]int{{1, 1}, {3, 9}, {16, 16}, {9, 70}} {
		m, n := s[0], s[1]
		t.Run(fmt.Sprint(m, "x", n), func(t *testing.T) {
			part := productBits(t, r, a, b, m, n, k)
			whole := coreBits(r, a, b, formatOf(r.On, false, m, n, k))
			for i := range m * n {
				if part[i] != whole[i/n*512+i%n] {
					t.Fatalf("element (%d,%d) has other bits than in a larger product", i/n, i%n)
				}
			}
		})
	}
}

// coreBits is a*b by the core alone.
func coreBits(r kernelstest.Rig, a, b ref.Array, f format) []float32 {
	m, k, n := a.Meta.Shape[0], a.Meta.Shape[1], b.Meta.Shape[1]
	g := gemm{isa: r.On.ISA, format: f, k: k, ldc: n, a: operand{rs: k, cs: 1}, b: operand{rs: n, cs: 1}, c: make([]float32, m*n)}
	g.a.data, g.b.data = work.Floats(kernelstest.Load(a).Mem, m*k), work.Floats(kernelstest.Load(b).Mem, k*n)
	g.do(0, m, 0, n)
	return g.c
}

// TestSmallProductsAreShared wants several chunks of products with long sums,
// without allocations.
func TestSmallProductsAreShared(t *testing.T) {
	r := rig
	for _, s := range [][3]int{{10, 256, 2048}, {32, 9, 4000}, {8, 8, 6000}, {128, 128, 512}} {
		l, err := r.Prepare(ops.MatMul{}, []ref.Array{kernelstest.Noise(s[0], s[2]), kernelstest.Noise(s[2], s[1])}, nil)
		if err != nil {
			t.Fatal(err)
		}
		k := l.Kernel.(*matmul)
		if c := k.grid.chunks() * k.partials.count; c < 4 {
			t.Errorf("%v makes %d chunks", s, c)
		}
		n := testing.AllocsPerRun(3, func() {
			if err := l.Kernel.Run(kernelstest.Serial{}, &l.Args); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%v allocates %v times", s, n)
		}
	}
}

// TestLayoutsOfISAs: what a kernel of one instruction set keeps packed is
// no use to one of another, and they must not take it for theirs.
func TestLayoutsOfISAs(t *testing.T) {
	seen := map[string]isa.ISA{}
	for l := isa.Generic; l <= isa.Best(); l++ {
		r := rig.With(l)
		run, err := r.Prepare(ops.MatMul{BF16: true}, []ref.Array{ref.New(shape.F32(40, 56)), ref.New(shape.F32(56, 72))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := MatMulPackCache(run.Kernel)
		if other, ok := seen[c.Layout]; ok || c.Bytes == 0 {
			t.Errorf("%v keeps %d bytes as %q, like %v", l, c.Bytes, c.Layout, other)
		}
		seen[c.Layout] = l
	}
}
