package kernels

import (
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// TestLargeShapes covers what small shapes do not reach: many blocks of K,
// many tiles, partial sums, several blocks of queries.
func TestLargeShapes(t *testing.T) {
	sum := func(axes ...int) graph.Op { return ops.Reduce{Fn: "sum", Axes: axes} }
	biggest := func(axes ...int) graph.Op { return ops.Reduce{Fn: "max", Axes: axes} }
	ids := ref.New(shape.I32(500))
	for i := range ids.I {
		ids.I[i] = int32(i * i % 97)
	}
	one, table := ref.Ints([]int32{3}), noise(97, 300)
	for _, s := range []sample{
		{ops.MatMul{}, []ref.Array{noise(150, 600), noise(600, 210)}, 2e-5},
		{ops.MatMul{TransA: true, TransB: true}, []ref.Array{noise(530, 37), noise(205, 530)}, 2e-5},
		{ops.MatMul{TransA: true}, []ref.Array{noise(3000, 9), noise(3000, 20)}, 2e-5},
		{ops.MatMul{TransA: true}, []ref.Array{noise(90, 600), noise(90, 40)}, 2e-5},
		{ops.MatMul{}, []ref.Array{noise(70, 500), noise(500, 1100)}, 2e-5},
		{ops.Conv2D{Stride: 1, Pad: 2, Groups: 1}, []ref.Array{noise(2, 3, 30, 31), noise(5, 3, 5, 5)}, 2e-5},
		{ops.Conv2DGradW{Stride: 1, Pad: 1, Groups: 1, KH: 3, KW: 3}, []ref.Array{noise(9, 1, 28, 28), noise(9, 8, 28, 28)}, 2e-5},
		{ops.Conv2D{Stride: 2, Pad: 1, Groups: 2}, []ref.Array{noise(2, 64, 15, 17), noise(70, 32, 3, 3)}, 2e-5},
		{ops.Conv2DGradX{Stride: 2, Pad: 1, Groups: 2, H: 15, W: 17}, []ref.Array{noise(70, 32, 3, 3), noise(2, 70, 8, 9)}, 2e-5},
		{ops.Conv2DGradX{Stride: 2, Pad: 1, Groups: 1, H: 61, W: 59}, []ref.Array{noise(40, 50, 3, 3), noise(1, 40, 31, 30)}, 2e-5},
		{ops.Conv2DGradX{Stride: 3, Pad: 2, Groups: 1, H: 160, W: 150}, []ref.Array{noise(40, 2, 7, 5), noise(1, 40, 53, 50)}, 2e-5},
		{ops.Conv2D{Stride: 1, Pad: 1, Groups: 2}, []ref.Array{noise(1, 2, 400, 301), noise(2, 1, 3, 3)}, 2e-5},
		{ops.Conv2D{Stride: 2, Pad: 2, Groups: 1}, []ref.Array{noise(1, 1, 401, 302), noise(1, 1, 5, 4)}, 2e-5},
		{ops.Conv2DGradX{Stride: 2, Pad: 1, Groups: 2, H: 401, W: 300}, []ref.Array{noise(2, 1, 3, 3), noise(1, 2, 201, 150)}, 2e-5},
		{ops.Conv2DGradW{Stride: 1, Pad: 1, Groups: 2, KH: 3, KW: 3}, []ref.Array{noise(2, 2, 400, 301), noise(2, 2, 400, 301)}, 1e-4},
		{ops.Conv2D{Stride: 8, Groups: 1}, []ref.Array{noise(2, 3, 65, 70), noise(100, 3, 8, 8)}, 5e-5},
		{ops.Conv2D{Stride: 4, Groups: 2}, []ref.Array{noise(2, 40, 43, 45), noise(70, 20, 4, 4)}, 5e-5},
		{ops.Conv2DGradX{Stride: 8, Groups: 1, H: 65, W: 70}, []ref.Array{noise(100, 3, 8, 8), noise(2, 100, 8, 8)}, 2e-5},
		{ops.Conv2DGradW{Stride: 1, Pad: 2, Groups: 1, KH: 5, KW: 5}, []ref.Array{noise(2, 7, 20, 20), noise(2, 33, 20, 20)}, 2e-5},
		{ops.Conv2D{Stride: 1, Pad: 1, Groups: 1}, []ref.Array{noise(1, 50, 61, 59), noise(65, 50, 3, 3)}, 2e-5},
		{ops.Conv2D{Stride: 3, Pad: 2, Groups: 2}, []ref.Array{noise(2, 6, 40, 41), noise(64, 3, 5, 4)}, 2e-5},
		{ops.Conv2DGradX{Stride: 1, Pad: 3, Groups: 2, H: 20, W: 23}, []ref.Array{noise(70, 32, 3, 2), noise(2, 70, 24, 28)}, 5e-5},
		{ops.Conv2DGradW{Stride: 1, Pad: 1, Groups: 1, KH: 3, KW: 3}, []ref.Array{noise(20, 33, 30, 31), noise(20, 40, 30, 31)}, 5e-5},
		{ops.Conv2DGradW{Stride: 2, Pad: 2, Groups: 2, KH: 5, KW: 4}, []ref.Array{noise(3, 4, 40, 41), noise(3, 64, 20, 21)}, 5e-5},
		{sum(), []ref.Array{noise(300, 701)}, 1e-6},
		{sum(1), []ref.Array{noise(2, 99991)}, 1e-6},
		{sum(0), []ref.Array{noise(40000, 3)}, 1e-6},
		{sum(0, 2), []ref.Array{noise(70, 5, 400)}, 1e-6},
		{biggest(), []ref.Array{noise(99991)}, 0},
		{ops.SumSquares{}, []ref.Array{noise(99991)}, 1e-6},
		{ops.MSE{}, []ref.Array{noise(30000), noise(30000)}, 1e-6},
		{ops.SumTo{Shape: shape.Of(200)}, []ref.Array{noise(7, 50, 200)}, 1e-6},
		{ops.Transpose{Perm: []int{1, 0}}, []ref.Array{noise(130, 257)}, 0},
		{ops.CausalSelfAttention{Heads: 2, P: 0.2}, []ref.Array{noise(2, 300, 3*20), one, one}, 1e-5},
		{ops.CausalSelfAttentionGrad{Heads: 2, P: 0.2}, []ref.Array{noise(2, 300, 3*20), noise(2, 300, 20), noise(2, 2, 300), noise(2, 300, 20), one, one}, 1e-4},
		{ops.CausalSelfAttention{Heads: 1}, []ref.Array{noise(1, 700, 3*8)}, 1e-5},
		{ops.CausalSelfAttentionGrad{Heads: 1}, []ref.Array{noise(1, 700, 3*8), noise(1, 700, 8), noise(1, 1, 700), noise(1, 700, 8)}, 1e-4},
		{ops.CausalSelfAttention{Heads: 1}, []ref.Array{noise(1, 67, 3*401)}, 1e-5},
		{ops.CausalSelfAttentionGrad{Heads: 1}, []ref.Array{noise(1, 67, 3*401), noise(1, 67, 401), noise(1, 1, 67), noise(1, 67, 401)}, 1e-4},
		{sum(0), []ref.Array{noise(300, 700)}, 1e-6},
		{sum(1), []ref.Array{noise(3, 200, 70)}, 1e-6},
		{ops.Softmax{}, []ref.Array{noise(5, 3001)}, 1e-6},
		{ops.CrossEntropy{}, []ref.Array{noise(5, 5003), ref.Ints([]int32{0, 5002, 7, 9, 11}, 5)}, 1e-6},
		{ops.Correct{}, []ref.Array{noise(500, 97), ids}, 0},
		{ops.BatchNorm{Eps: 1e-5}, []ref.Array{noise(5, 3, 40, 41), noise(3), noise(3)}, 1e-5},
		{ops.LayerNorm{Eps: 1e-5}, []ref.Array{noise(3, 3001), noise(3001), noise(3001)}, 1e-5},
		{ops.ScatterAdd{Rows: 97}, []ref.Array{ids, noise(500, 300)}, 1e-5},
		{ops.Gather{}, []ref.Array{table, ids}, 0},
		{ops.CrossEntropy{}, []ref.Array{noise(500, 97), ids}, 1e-6},
		{ops.LayerNormGrad{}, []ref.Array{noise(200, 300), noise(300), noise(200), noise(200), noise(200, 300)}, 1e-5},
	} {
		if n, err := nodeOf(s.op, s.in); err == nil && testing.Short() && n.Cost().Flops > 1e8 {
			continue // the reference takes a minute beside the race detector
		}
		t.Run(graph.OpString(s.op), func(t *testing.T) {
			want := reference(t, s) // which takes longer than all levels
			atLevels(t, func(t *testing.T) { checkAgainst(t, s, want, 7) })
		})
	}
}

// TestBitsDoNotDependOnTheTile computes the same rows and columns inside
// products of other sizes, whose tiles lie elsewhere.
func TestBitsDoNotDependOnTheTile(t *testing.T) { atLevels(t, testTiles) }

func testTiles(t *testing.T) {
	const k = 300
	a, b := noise(131, k), noise(k, 203)
	whole := productBits(t, a, b, 131, 203, k)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		m, n := 1+rng.IntN(131), 1+rng.IntN(203)
		if l := Using(); l.formatOf(false, m, n, k) != l.formatOf(false, 131, 203, k) {
			continue
		}
		part := productBits(t, a, b, m, n, k)
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
// before their tiles are computed as from the core alone.
func TestPackedAsAWhole(t *testing.T) { atLevels(t, testPackedAsAWhole) }

func testPackedAsAWhole(t *testing.T) {
	const m, n, k = 523, 541, 397
	for i := range 8 {
		op := ops.MatMul{TransA: i&1 > 0, TransB: i&2 > 0, BF16: i&4 > 0}
		a, b := noise(m, k), noise(k, n)
		g := gemm{isa: Using(), k: k, ldc: n, c: make([]float32, m*n), format: Using().formatOf(op.BF16, m, n, k), a: operand{nil, k, 1}, b: operand{nil, n, 1}}
		if op.TransA {
			a, g.a.rs, g.a.cs = noise(k, m), 1, m
		}
		if op.TransB {
			b, g.b.rs, g.b.cs = noise(n, k), 1, k
		}
		l := runSample(t, sample{op, []ref.Array{a, b}, 0}, nil, serial{})
		g.a.data, g.b.data = floats(l.args.In[0], m*k), floats(l.args.In[1], k*n)
		g.do(0, m, 0, n)
		for j, v := range floats(l.out[0].mem, m*n) {
			if v != g.c[j] {
				t.Fatalf("%v: element (%d,%d) is %v, want %v", op, j/n, j%n, v, g.c[j])
			}
		}
		checkKept(t, sample{op, []ref.Array{a, b}, 0}, l)
		if p := l.kernel.(*matmul).prepacker; p.lenA+p.lenB == 0 && (op.BF16 || op.TransB && g.format != formatSplit) {
			t.Errorf("%v was not packed as a whole", op)
		}
	}
}

// productBits multiplies the first m rows of a with the first n columns of b.
func productBits(t *testing.T, a, b ref.Array, m, n, k int) []float32 {
	t.Helper()
	cut := ref.New(shape.F32(k, n))
	for i := range k {
		copy(cut.F[i*n:(i+1)*n], b.F[i*b.Meta.Shape[1]:])
	}
	s := sample{ops.MatMul{}, []ref.Array{ref.Floats(a.F[:m*k], m, k), cut}, 0}
	return floats(runSample(t, s, nil, serial{}).out[0].mem, m*n)
}
