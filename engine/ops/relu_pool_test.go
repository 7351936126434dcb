package ops_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// Below a max pooling, relu's gradient is computed from what was pooled, with the same numbers as from relu's own output. Where
// something else reads that output, too, or as many numbers were pooled, it is computed from it.
func TestGradientOfReluBelowMaxPool(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, op := range []ops.MaxPool2D{{Kernel: 2, Stride: 2}, {Kernel: 3, Stride: 1, Pad: 1}, {Kernel: 3, Stride: 2, Pad: 1}} {
		for _, shared := range []bool{false, true} {
			b := graph.NewBuilder("pool", 1)
			x := b.Input("x", shape.F32(2, 3, 7, 6))
			r := ops.Relu(b, x)
			pooled := ops.MaxPool(b, r, op.Kernel, op.Stride, op.Pad)
			weights := b.Input("weights", pooled.Meta)
			loss := ops.Sum(b, ops.Mul(b, pooled, weights), false)
			if shared {
				loss = ops.Add(b, loss, ops.Sum(b, ops.Mul(b, r, x), false))
			}
			dx := b.Gradients(loss, ops.Const(b, shape.F32(), 1), []*graph.Value{x}, ops.AddOp)[x]
			sum := dx[0]
			for _, d := range dx[1:] {
				sum = ops.Add(b, sum, d)
			}
			b.Output("dx", sum)
			b.Output("relu", r)
			g, err := b.Graph()
			if err != nil {
				t.Fatal(err)
			}
			feed := map[*graph.Value]ref.Array{x: ref.New(x.Meta), weights: ref.New(weights.Meta)}
			for _, a := range feed {
				for i := range a.F {
					a.F[i] = float64(rng.IntN(7) - 3) // many are equal, and windows all negative or zero
				}
			}
			vals, err := ref.Eval(g, feed)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool { return n.Op.Kind() == "relu_grad" })
			fewer := op.Stride > 1
			if reads := g.Nodes[at].In[0]; (reads == r) != (shared || !fewer) {
				t.Errorf("%+v, shared %v: relu's gradient reads %v", op, shared, reads.Name)
			}
			want := expectedPoolGrad(t, op, feed[x], vals[r], feed[weights], shared)
			if !slices.Equal(vals[sum].F, want) {
				t.Errorf("%+v, shared %v: %v, want %v", op, shared, vals[sum].F, want)
			}
		}
	}
}

// expectedPoolGrad spreads the gradient first, and multiplies it with relu's slope then.
func expectedPoolGrad(t *testing.T, op ops.MaxPool2D, x, r, weights ref.Array, shared bool) []float64 {
	t.Helper()
	y, err := ref.Run(op, []ref.Array{r})
	if err != nil {
		t.Fatal(err)
	}
	s := x.Meta.Shape
	d, err := ref.Run(ops.MaxPool2DGrad{H: s[2], W: s[3]}, []ref.Array{y[1], weights})
	if err != nil {
		t.Fatal(err)
	}
	dx := d[0].F
	for i := range dx {
		slope := 0.0
		if r.F[i] > 0 {
			slope = 1
		}
		more := 0.0
		if shared {
			dx[i] += x.F[i]
			more = r.F[i]
		}
		dx[i] = dx[i]*slope + more
	}
	return dx
}
