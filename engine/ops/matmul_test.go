package ops_test

import (
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestRoundBF16(t *testing.T) {
	f := math.Float32frombits
	for _, c := range []struct{ x, want uint32 }{
		{0x3f800000, 0x3f800000}, // 1
		{0x3f808000, 0x3f800000}, // between two: the even one, below
		{0x3f818000, 0x3f820000}, // and above
		{0x3f808001, 0x3f810000},
		{0xbf807fff, 0xbf800000},
		{0x00000001, 0},          // subnormal
		{0x00018000, 0x00020000}, // subnormal and between two
		{0x80000000, 0x80000000}, // -0
		{0x7f7fffff, 0x7f800000}, // the largest
		{0xff800000, 0xff800000}, // -Inf
		{0x7f800001, 0x7fc00000}, // a NaN whose bits would be cut off
	} {
		if got := math.Float32bits(ops.RoundBF16(f(c.x))); got != c.want {
			t.Errorf("%#x becomes %#x, want %#x", c.x, got, c.want)
		}
	}
}

// TestGradientsOfBF16ProductsAreBF16, in every layout.
func TestGradientsOfBF16ProductsAreBF16(t *testing.T) {
	for _, op := range []ops.MatMul{{BF16: true}, {BF16: true, TransA: true}, {BF16: true, TransB: true}} {
		for _, rank := range []int{2, 3} {
			if op.TransA && rank == 3 {
				continue // not with a weight
			}
			b := graph.NewBuilder("bf16", 1)
			x, w := b.Input("x", shape.F32([]int{5, 4, 4}[3-rank:]...)), b.Input("w", shape.F32(4, 4))
			loss := ops.Sum(b, b.One(op, x, w), false)
			b.Output("loss", loss)
			for _, gs := range b.Gradients(loss, ops.Const(b, shape.F32(), 1), []*graph.Value{x, w}, ops.AddOp) {
				for _, g := range gs {
					b.Output("grad", g)
				}
			}
			g, err := b.Graph()
			if err != nil {
				t.Fatal(err)
			}
			products := 0
			for _, n := range g.Nodes {
				if m, ok := n.Op.(ops.MatMul); ok {
					products++
					if !m.BF16 {
						t.Errorf("%v of rank %d has the gradient %v", op, rank, n)
					}
				}
			}
			if products != 3 {
				t.Errorf("%v of rank %d: %d products, want 3", op, rank, products)
			}
		}
	}
}
