package product

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// TestBitsDoNotDependOnTheCell computes the same rows and columns inside
// products of other sizes, whose cells lie elsewhere.
func TestBitsDoNotDependOnTheCell(t *testing.T) { rig.EachISA(t, testCells) }

func testCells(t *testing.T, r kernelstest.Rig) {
	const k = 300
	a, b := kernelstest.Noise(131, k), kernelstest.Noise(k, 203)
	whole := productBits(t, r, a, b, 131, 203, k)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		m, n := 1+rng.IntN(131), 1+rng.IntN(203)
		if formatOf(r.On, false, m, n, k) != formatOf(r.On, false, 131, 203, k) {
			continue
		}
		part := productBits(t, r, a, b, m, n, k)
		for i := range m {
			for j := range n {
				if part[i*n+j] != whole[i*203+j] {
					t.Fatalf("element (%d,%d) of a %dx%d product has other bits than of 131x203", i, j, m, n)
				}
			}
		}
	}
}

// TestPackedAsAWhole wants the same bits from products whose operands are packed
// before their cells are computed as from the core alone.
func TestPackedAsAWhole(t *testing.T) { rig.EachISA(t, testPackedAsAWhole) }

func testPackedAsAWhole(t *testing.T, r kernelstest.Rig) {
	const m, n, k = 523, 541, 397
	for i := range 8 {
		if bits.OnesCount(uint(i))%2 > 0 && !testall.Wanted() {
			continue // the others have each pair of settings
		}
		op := ops.MatMul{TransA: i&1 > 0, TransB: i&2 > 0, BF16: i&4 > 0}
		a, b := kernelstest.Noise(m, k), kernelstest.Noise(k, n)
		g := gemm{isa: r.On.ISA, k: k, ldc: n, c: make([]float32, m*n), format: formatOf(r.On, op.BF16, m, n, k), a: operand{nil, k, 1}, b: operand{nil, n, 1}}
		if op.TransA {
			a, g.a.rs, g.a.cs = kernelstest.Noise(k, m), 1, m
		}
		if op.TransB {
			b, g.b.rs, g.b.cs = kernelstest.Noise(n, k), 1, k
		}
		l := r.Run(t, kernelstest.Of(op, 0, a, b), nil, kernelstest.Serial{})
		g.a.data, g.b.data = work.Floats(l.Args.In[0], m*k), work.Floats(l.Args.In[1], k*n)
		g.do(0, m, 0, n)
		for j, v := range work.Floats(l.Out[0].Mem, m*n) {
			if v != g.c[j] {
				t.Fatalf("%v: element (%d,%d) is %v, want %v", op, j/n, j%n, v, g.c[j])
			}
		}
		r.CheckCached(t, kernelstest.Of(op, 0, a, b), l)
		if p := l.Kernel.(*matmul).prepacker; p.lenA+p.lenB == 0 && (op.BF16 || op.TransB && g.format != formatSplit) {
			t.Errorf("%v was not packed as a whole", op)
		}
	}
}

// productBits multiplies the first m rows of a with the first n columns of b.
func productBits(t *testing.T, r kernelstest.Rig, a, b ref.Array, m, n, k int) []float32 {
	t.Helper()
	cut := ref.New(shape.F32(k, n))
	for i := range k {
		copy(cut.F[i*n:(i+1)*n], b.F[i*b.Meta.Shape[1]:])
	}
	s := kernelstest.Of(ops.MatMul{}, 0, ref.Floats(a.F[:m*k], m, k), cut)
	return work.Floats(r.Run(t, s, nil, kernelstest.Serial{}).Out[0].Mem, m*n)
}
