package bench

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Flops is the model's arithmetic in one step of a graph with one microbatch:
// the multiplications and additions of every matrix product, convolution and
// attention in Forward and Backward, from their ops' costs. Attention counts
// two products forward and four backward, over the scores that the mask
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
	switch op := n.Op.(type) {
	case ops.MatMul, ops.Conv2D, ops.Conv2DGradX, ops.Conv2DGradW:
		return n.Cost().Flops
	case ops.Attention:
		return 2 * attentionProduct(op, n)
	case ops.AttentionGrad:
		return 4 * attentionProduct(ops.Attention(op), n)
	}
	return 0
}

// attentionProduct is the arithmetic of one product over the scores of all heads, for
// the keys that queries see.
func attentionProduct(op ops.Attention, n *graph.Node) int64 {
	s := n.In[0].Meta.Shape
	return 2 * int64(s[0]) * int64(op.Heads*op.Size(s[2])) * int64(op.Pairs(s[1]))
}
