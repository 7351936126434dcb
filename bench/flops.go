package bench

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Flops is the model's arithmetic in one step of a graph with one microbatch:
// the multiplications and additions of every matrix product, convolution and
// attention in Forward and Backward, from their ops' costs. Attention counts
// two products forward and four backward, over the scores that the causal mask
// leaves. Elementwise work, norms, softmax, the update and recomputed values
// do not count. No program can avoid this arithmetic, so its share of the peak
// is comparable between programs.
func Flops(g *graph.Graph) int64 {
	var sum int64
	for _, n := range g.Nodes {
		if n.Phase != graph.Update {
			sum += nodeFlops(n)
		}
	}
	return sum
}

// nodeFlops is the part of a node in Flops.
func nodeFlops(n *graph.Node) int64 {
	switch n.Op.(type) {
	case ops.MatMul, ops.Conv2D, ops.Conv2DGradX, ops.Conv2DGradW:
		return n.Cost().Flops
	case ops.CausalSelfAttention:
		return 2 * attentionProduct(n)
	case ops.CausalSelfAttentionGrad:
		return 4 * attentionProduct(n)
	}
	return 0
}

// attentionProduct is the arithmetic of one product over the lower triangles of
// all heads' T×T scores. The input is qkv[B,T,3D].
func attentionProduct(n *graph.Node) int64 {
	s := n.In[0].Meta.Shape
	b, t, d := int64(s[0]), int64(s[1]), int64(s[2]/3)
	return 2 * b * d * (t * (t + 1) / 2)
}
