package kernels

import (
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// TestLargeShapes covers what small shapes do not reach: many blocks of K,
// many cells, partial sums, several blocks of queries.
func TestLargeShapes(t *testing.T) {
	sum := func(axes ...int) graph.Op { return ops.Reduce{Fn: "sum", Axes: axes} }
	biggest := func(axes ...int) graph.Op { return ops.Reduce{Fn: "max", Axes: axes} }
	ids := ref.New(shape.I32(500))
	for i := range ids.I {
		ids.I[i] = int32(i * i % 97)
	}
	one, table := ref.Ints([]int32{3}), kernelstest.Noise(97, 300)
	lengths := ref.Ints([]int32{400, 333}, 2)
	positions := ref.New(shape.I32(2, 500))
	for i := range positions.I {
		positions.I[i] = int32(i % 500 % 143)
	}
	for _, s := range []kernelstest.Sample{
		kernelstest.Of(ops.MatMul{}, 2e-5, kernelstest.Noise(150, 600), kernelstest.Noise(600, 210)),
		kernelstest.Of(ops.MatMul{TransA: true, TransB: true}, 2e-5, kernelstest.Noise(530, 37), kernelstest.Noise(205, 530)),
		kernelstest.Of(ops.MatMul{TransA: true}, 2e-5, kernelstest.Noise(3000, 9), kernelstest.Noise(3000, 20)),
		kernelstest.Of(ops.MatMul{TransA: true}, 2e-5, kernelstest.Noise(90, 600), kernelstest.Noise(90, 40)),
		kernelstest.Of(ops.MatMul{}, 2e-5, kernelstest.Noise(70, 500), kernelstest.Noise(500, 1100)),
		kernelstest.Of(ops.Conv2D{Stride: 1, Pad: 2, Groups: 1}, 2e-5, kernelstest.Noise(2, 3, 30, 31), kernelstest.Noise(5, 3, 5, 5)),
		kernelstest.Of(ops.Conv2DGradW{Of: ops.Conv2D{Stride: 1, Pad: 1, Groups: 1}, KH: 3, KW: 3}, 2e-5, kernelstest.Noise(9, 1, 28, 28), kernelstest.Noise(9, 8, 28, 28)),
		kernelstest.Of(ops.Conv2D{Stride: 2, Pad: 1, Groups: 2}, 2e-5, kernelstest.Noise(2, 64, 15, 17), kernelstest.Noise(70, 32, 3, 3)),
		kernelstest.Of(ops.Conv2DGradX{Of: ops.Conv2D{Stride: 2, Pad: 1, Groups: 2}, H: 15, W: 17}, 2e-5, kernelstest.Noise(70, 32, 3, 3), kernelstest.Noise(2, 70, 8, 9)),
		kernelstest.Of(ops.Conv2DGradX{Of: ops.Conv2D{Stride: 2, Pad: 1, Groups: 1}, H: 61, W: 59}, 2e-5, kernelstest.Noise(40, 50, 3, 3), kernelstest.Noise(1, 40, 31, 30)),
		kernelstest.Of(ops.Conv2DGradX{Of: ops.Conv2D{Stride: 3, Pad: 2, Groups: 1}, H: 160, W: 150}, 2e-5, kernelstest.Noise(40, 2, 7, 5), kernelstest.Noise(1, 40, 53, 50)),
		kernelstest.Of(ops.Conv2D{Stride: 1, Pad: 1, Groups: 2}, 2e-5, kernelstest.Noise(1, 2, 400, 301), kernelstest.Noise(2, 1, 3, 3)),
		kernelstest.Of(ops.Conv2D{Stride: 2, Pad: 2, Groups: 1}, 2e-5, kernelstest.Noise(1, 1, 401, 302), kernelstest.Noise(1, 1, 5, 4)),
		kernelstest.Of(ops.Conv2DGradX{Of: ops.Conv2D{Stride: 2, Pad: 1, Groups: 2}, H: 401, W: 300}, 2e-5, kernelstest.Noise(2, 1, 3, 3), kernelstest.Noise(1, 2, 201, 150)),
		kernelstest.Of(ops.Conv2DGradW{Of: ops.Conv2D{Stride: 1, Pad: 1, Groups: 2}, KH: 3, KW: 3}, 1e-4, kernelstest.Noise(2, 2, 400, 301), kernelstest.Noise(2, 2, 400, 301)),
		kernelstest.Of(ops.Conv2D{Stride: 8, Groups: 1}, 5e-5, kernelstest.Noise(2, 3, 65, 70), kernelstest.Noise(100, 3, 8, 8)),
		kernelstest.Of(ops.Conv2D{Stride: 4, Groups: 2}, 5e-5, kernelstest.Noise(2, 40, 43, 45), kernelstest.Noise(70, 20, 4, 4)),
		kernelstest.Of(ops.Conv2DGradX{Of: ops.Conv2D{Stride: 8, Groups: 1}, H: 65, W: 70}, 2e-5, kernelstest.Noise(100, 3, 8, 8), kernelstest.Noise(2, 100, 8, 8)),
		kernelstest.Of(ops.Conv2DGradW{Of: ops.Conv2D{Stride: 1, Pad: 2, Groups: 1}, KH: 5, KW: 5}, 2e-5, kernelstest.Noise(2, 7, 20, 20), kernelstest.Noise(2, 33, 20, 20)),
		kernelstest.Of(ops.Conv2D{Stride: 1, Pad: 1, Groups: 1}, 2e-5, kernelstest.Noise(1, 50, 61, 59), kernelstest.Noise(65, 50, 3, 3)),
		kernelstest.Of(ops.Conv2D{Stride: 3, Pad: 2, Groups: 2}, 2e-5, kernelstest.Noise(2, 6, 40, 41), kernelstest.Noise(64, 3, 5, 4)),
		kernelstest.Of(ops.Conv2DGradX{Of: ops.Conv2D{Stride: 1, Pad: 3, Groups: 2}, H: 20, W: 23}, 5e-5, kernelstest.Noise(70, 32, 3, 2), kernelstest.Noise(2, 70, 24, 28)),
		kernelstest.Of(ops.Conv2DGradW{Of: ops.Conv2D{Stride: 1, Pad: 1, Groups: 1}, KH: 3, KW: 3}, 5e-5, kernelstest.Noise(20, 33, 30, 31), kernelstest.Noise(20, 40, 30, 31)),
		kernelstest.Of(ops.Conv2D{Stride: 1, Pad: 4, Groups: 1, Dilation: 4}, 2e-5, kernelstest.Noise(2, 40, 30, 31), kernelstest.Noise(50, 40, 3, 3)),
		kernelstest.Of(ops.Conv2D{Stride: 2, Pad: 3, Groups: 30, Dilation: 3}, 2e-5, kernelstest.Noise(2, 30, 40, 41), kernelstest.Noise(30, 1, 3, 3)),
		kernelstest.Of(ops.Conv2DGradX{Of: ops.Conv2D{Stride: 1, Pad: 2, Groups: 2, Dilation: 2}, H: 30, W: 31}, 2e-5, kernelstest.Noise(50, 20, 3, 3), kernelstest.Noise(2, 50, 30, 31)),
		kernelstest.Of(ops.Conv2DGradX{Of: ops.Conv2D{Stride: 2, Pad: 1, Groups: 1, Dilation: 3}, H: 61, W: 59}, 2e-5, kernelstest.Noise(40, 50, 3, 3), kernelstest.Noise(1, 40, 29, 28)),
		kernelstest.Of(ops.Conv2DGradW{Of: ops.Conv2D{Stride: 2, Pad: 4, Groups: 1, Dilation: 4}, KH: 3, KW: 3}, 5e-5, kernelstest.Noise(3, 20, 40, 41), kernelstest.Noise(3, 40, 20, 21)),
		kernelstest.Of(ops.Conv2DGradW{Of: ops.Conv2D{Stride: 2, Pad: 2, Groups: 2}, KH: 5, KW: 4}, 5e-5, kernelstest.Noise(3, 4, 40, 41), kernelstest.Noise(3, 64, 20, 21)),
		kernelstest.Of(sum(), 1e-6, kernelstest.Noise(300, 701)),
		kernelstest.Of(sum(1), 1e-6, kernelstest.Noise(2, 99991)),
		kernelstest.Of(sum(0), 1e-6, kernelstest.Noise(40000, 3)),
		kernelstest.Of(sum(0, 2), 1e-6, kernelstest.Noise(70, 5, 400)),
		kernelstest.Of(biggest(), 0, kernelstest.Noise(99991)),
		kernelstest.Of(ops.SumSquares{}, 1e-6, kernelstest.Noise(99991)),
		kernelstest.Of(ops.MSE{}, 1e-6, kernelstest.Noise(30000), kernelstest.Noise(30000)),
		kernelstest.Of(ops.SumTo{Shape: shape.Of(200)}, 1e-6, kernelstest.Noise(7, 50, 200)),
		kernelstest.Of(ops.Transpose{Perm: []int{1, 0}}, 0, kernelstest.Noise(130, 257)),
		kernelstest.Of(ops.Attention{Heads: 2, P: 0.2}, 1e-5, kernelstest.Noise(2, 300, 3*20), one, one),
		kernelstest.Of(ops.AttentionGrad{Heads: 2, P: 0.2}, 1e-4, kernelstest.Noise(2, 300, 3*20), kernelstest.Noise(2, 300, 20), kernelstest.Noise(2, 2, 300), kernelstest.Noise(2, 300, 20), one, one),
		kernelstest.Of(ops.Attention{Heads: 1}, 1e-5, kernelstest.Noise(1, 700, 3*8)),
		kernelstest.Of(ops.AttentionGrad{Heads: 1}, 1e-4, kernelstest.Noise(1, 700, 3*8), kernelstest.Noise(1, 700, 8), kernelstest.Noise(1, 1, 700), kernelstest.Noise(1, 700, 8)),
		kernelstest.Of(ops.Attention{Heads: 1}, 1e-5, kernelstest.Noise(1, 67, 3*401)),
		kernelstest.Of(ops.Attention{Heads: 4, KVHeads: 2, Window: 100}, 1e-5, kernelstest.Noise(1, 500, 8*16)),
		kernelstest.Of(ops.AttentionGrad{Heads: 4, KVHeads: 2, Window: 100}, 1e-4, kernelstest.Noise(1, 500, 8*16), kernelstest.Noise(1, 500, 4*16), kernelstest.Noise(1, 4, 500), kernelstest.Noise(1, 500, 4*16)),
		kernelstest.Of(ops.Attention{Heads: 4, KVHeads: 2, Packed: true}, 1e-5, kernelstest.Noise(2, 500, 8*16), positions),
		kernelstest.Of(ops.AttentionGrad{Heads: 4, KVHeads: 2, Packed: true}, 1e-4, kernelstest.Noise(2, 500, 8*16), kernelstest.Noise(2, 500, 4*16), kernelstest.Noise(2, 4, 500), kernelstest.Noise(2, 500, 4*16), positions),
		kernelstest.Of(ops.Attention{Heads: 4, KVHeads: 1, Full: true, Padded: true}, 1e-5, kernelstest.Noise(2, 400, 6*12), lengths),
		kernelstest.Of(ops.AttentionGrad{Heads: 4, KVHeads: 1, Full: true, Padded: true}, 1e-4, kernelstest.Noise(2, 400, 6*12), kernelstest.Noise(2, 400, 4*12), kernelstest.Noise(2, 4, 400), kernelstest.Noise(2, 400, 4*12), lengths),
		kernelstest.Of(ops.AttentionGrad{Heads: 2, Full: true, Window: 70, P: 0.2}, 1e-4, kernelstest.Noise(1, 500, 6*12), kernelstest.Noise(1, 500, 2*12), kernelstest.Noise(1, 2, 500), kernelstest.Noise(1, 500, 2*12), one, one),
		kernelstest.Of(ops.AttentionGrad{Heads: 1}, 1e-4, kernelstest.Noise(1, 67, 3*401), kernelstest.Noise(1, 67, 401), kernelstest.Noise(1, 1, 67), kernelstest.Noise(1, 67, 401)),
		kernelstest.Of(ops.Attention{Heads: 2, P: 0.2, BF16: true}, kernelstest.RoundedAttention, kernelstest.Noise(2, 300, 3*20), one, one),
		kernelstest.Of(ops.AttentionGrad{Heads: 2, P: 0.2, BF16: true}, 4*kernelstest.RoundedAttention, kernelstest.Noise(2, 300, 3*20), kernelstest.Noise(2, 300, 20), kernelstest.Noise(2, 2, 300), kernelstest.Noise(2, 300, 20), one, one),
		kernelstest.Of(ops.Attention{Heads: 1, BF16: true}, kernelstest.RoundedAttention, kernelstest.Noise(1, 67, 3*401)),
		kernelstest.Of(ops.Attention{Heads: 1, BF16: true}, kernelstest.RoundedAttention, kernelstest.Noise(1, 37, 3*801)),
		kernelstest.Of(ops.Attention{Heads: 4, KVHeads: 2, Packed: true, BF16: true}, kernelstest.RoundedAttention, kernelstest.Noise(2, 500, 8*16), positions),
		kernelstest.Of(ops.AttentionGrad{Heads: 4, KVHeads: 2, Window: 100, BF16: true}, 4*kernelstest.RoundedAttention, kernelstest.Noise(1, 500, 8*16), kernelstest.Noise(1, 500, 4*16), kernelstest.Noise(1, 4, 500), kernelstest.Noise(1, 500, 4*16)),
		kernelstest.Of(ops.AttentionGrad{Heads: 4, KVHeads: 1, Full: true, Padded: true, BF16: true}, 4*kernelstest.RoundedAttention, kernelstest.Noise(2, 400, 6*12), kernelstest.Noise(2, 400, 4*12), kernelstest.Noise(2, 4, 400), kernelstest.Noise(2, 400, 4*12), lengths),
		kernelstest.Of(sum(0), 1e-6, kernelstest.Noise(300, 700)),
		kernelstest.Of(sum(1), 1e-6, kernelstest.Noise(3, 200, 70)),
		kernelstest.Of(ops.Softmax{}, 1e-6, kernelstest.Noise(5, 3001)),
		kernelstest.Of(ops.CrossEntropy{}, 1e-6, kernelstest.Noise(5, 5003), ref.Ints([]int32{0, 5002, 7, 9, 11}, 5)),
		kernelstest.Of(ops.Correct{}, 0, kernelstest.Noise(500, 97), ids),
		kernelstest.Of(ops.BatchNorm{Eps: 1e-5}, 1e-5, kernelstest.Noise(5, 3, 40, 41), kernelstest.Noise(3), kernelstest.Noise(3)),
		kernelstest.Of(ops.LayerNorm{Eps: 1e-5}, 1e-5, kernelstest.Noise(3, 3001), kernelstest.Noise(3001), kernelstest.Noise(3001)),
		kernelstest.Of(ops.ScatterAdd{Rows: 97}, 1e-5, ids, kernelstest.Noise(500, 300)),
		kernelstest.Of(ops.Gather{}, 0, table, ids),
		kernelstest.Of(ops.CrossEntropy{}, 1e-6, kernelstest.Noise(500, 97), ids),
		kernelstest.Of(ops.LayerNormGrad{}, 1e-5, kernelstest.Noise(200, 300), kernelstest.Noise(300), kernelstest.Noise(200), kernelstest.Noise(200), kernelstest.Noise(200, 300)),
	} {
		if n, err := kernelstest.NodeOf(s.Op, s.In); err == nil && !testall.Wanted() && n.Cost().Flops > 5e7 {
			continue // the reference takes long
		}
		t.Run(graph.OpString(s.Op), func(t *testing.T) {
			t.Parallel()
			want := s.Reference(t) // which takes longer than all instruction sets
			rig.EachISA(t, func(t *testing.T, r kernelstest.Rig) { r.CheckAgainst(t, s, want, 7) })
		})
	}
}
