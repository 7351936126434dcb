package graph_test

import (
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestCostSumsNodes(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x := b.Input("x", shape.F32(2, 3))
	b.Output("y", ops.MatMulOf(b, x, b.Input("w", shape.F32(3, 4)), false, false))
	b.Output("z", ops.Neg(b, x))
	if got, want := done(t, b).Cost(), (graph.Cost{Flops: 2*2*3*4 + 6, Bytes: 4 * (6 + 12 + 8 + 6 + 6)}); got != want {
		t.Errorf("cost is %+v, expected %+v", got, want)
	}
}
