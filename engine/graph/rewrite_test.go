package graph_test

import (
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestPruneKeepsWhatIsNeeded(t *testing.T) {
	build := func(microbatches int, use func(b *graph.Builder, sum, w *graph.Value)) string {
		b := graph.NewBuilder("net", microbatches)
		x := b.Input("x", shape.F32())
		w := b.Var("w", shape.F32(), graph.Parameter, graph.Init{})
		ops.Tanh(b, x) // never needed
		sum := b.Accumulate(ops.Square(b, x), ops.AddOp)
		b.Accumulate(ops.Exp(b, x), ops.AddOp) // a sum that nobody reads
		use(b, sum, w)
		g := done(t, b)
		if microbatches > 1 && len(g.Nodes) > 0 && (len(g.Accums) != 1 || g.Accums[0].Sum != sum) {
			t.Errorf("sums kept are %v", g.Accums)
		}
		return kinds(g)
	}
	for _, m := range []int{1, 3} {
		for name, c := range map[string]struct {
			use  func(b *graph.Builder, sum, w *graph.Value)
			want string
		}{
			"nothing":  {func(*graph.Builder, *graph.Value, *graph.Value) {}, ""},
			"read":     {func(b *graph.Builder, sum, _ *graph.Value) { b.Output("y", ops.Neg(b, sum)) }, "square neg"},
			"output":   {func(b *graph.Builder, sum, _ *graph.Value) { b.Output("y", sum) }, "square"},
			"assigned": {func(b *graph.Builder, sum, w *graph.Value) { b.Assign(w, sum) }, "square"},
			"both":     {func(b *graph.Builder, sum, w *graph.Value) { b.Assign(w, ops.Mul(b, sum, sum)) }, "square mul"},
		} {
			if got := build(m, c.use); got != c.want {
				t.Errorf("%s, %d microbatches: kept %q, expected %q", name, m, got, c.want)
			}
		}
	}
}

func TestPruneKeepsNodeNumbers(t *testing.T) {
	b := graph.NewBuilder("net", 1)
	x := b.Input("x", shape.F32())
	ops.Tanh(b, x)
	b.Output("y", ops.Exp(b, x))
	if g := done(t, b); len(g.Nodes) != 1 || g.Nodes[0].ID != 1 {
		t.Errorf("kept %v", g.Nodes)
	}
}
