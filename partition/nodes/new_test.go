package nodes

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
)

// TestGraphErrors builds graphs that cannot be planned.
func TestGraphErrors(t *testing.T) {
	for name, c := range map[string]struct {
		build func(b *graph.Builder, x, v *graph.Value)
		want  string
	}{
		"input summed":      {func(b *graph.Builder, x, v *graph.Value) { b.Output("y", b.Accumulate(x, ops.AddOp)) }, "accumulate the result of an op"},
		"assigned an input": {func(b *graph.Builder, x, v *graph.Value) { b.Assign(v, x) }, "assign the result of an op built in the Update phase"},
		"assigned twice": {func(b *graph.Builder, x, v *graph.Value) {
			defer b.InPhase(graph.Update)()
			b.Assign(v, ops.Tanh(b, v))
			b.Assign(v, ops.Exp(b, v))
		}, "assigned twice"},
		"same value twice": {func(b *graph.Builder, x, v *graph.Value) {
			defer b.InPhase(graph.Update)()
			y := ops.Tanh(b, v)
			b.Assign(v, y)
			b.Assign(b.Var("w", v.Meta, graph.Metric, graph.Init{}), y)
		}, "the same value"},
		"not summed": {func(b *graph.Builder, x, v *graph.Value) {
			y := ops.Tanh(b, x)
			defer b.InPhase(graph.Update)()
			b.Assign(v, ops.Exp(b, y))
		}, "read the sum that Builder.Accumulate makes"},
		"sum read early": {func(b *graph.Builder, x, v *graph.Value) {
			b.Output("y", ops.Exp(b, b.Accumulate(ops.Tanh(b, x), ops.AddOp)))
		}, "before it is complete"},
		"circular": {func(b *graph.Builder, x, v *graph.Value) {
			defer b.InPhase(graph.Update)()
			w := b.Var("w", v.Meta, graph.Metric, graph.Init{})
			b.Assign(v, ops.Tanh(b, w))
			b.Assign(w, ops.Tanh(b, v))
		}, "circular"},
	} {
		b := graph.NewBuilder("g", 2)
		x := b.Input("x", shape.F32(3))
		v := b.Var("v", shape.F32(3), graph.Metric, graph.Init{})
		c.build(b, x, v)
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = New(g, Options{Microbatches: 2}, stop.When(nil)); !errors.Is(err, ErrGraph) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestUpdatesRunInOrder: each node of the update comes once, behind those that it must run
// after: the ones whose results it reads, and the readers of a variable that it overwrites.
func TestUpdatesRunInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		g, err := n.Build()
		if err != nil {
			t.Fatal(err)
		}
		x, err := New(g, Options{Microbatches: n.Microbatches, Tree: rapid.Bool().Draw(t, "tree")}, stop.When(nil))
		if err != nil {
			t.Fatal(err)
		}
		done := map[*graph.Node]bool{}
		ran := func(before, n *graph.Node) {
			if before != n && before.Phase == graph.Update && !done[before] {
				t.Fatalf("%v runs before %v", n, before)
			}
		}
		for i, n := range x.Updates {
			if done[n] || n.Phase != graph.Update || x.Position[n.ID] != i {
				t.Fatalf("%v is update %d, with the position %d", n, i, x.Position[n.ID])
			}
			for _, v := range n.In {
				if v.Kind == graph.Computed {
					ran(v.Node, n)
				}
			}
			for _, out := range n.Out {
				if v := x.Variable[out.ID]; v != nil {
					for _, r := range x.Readers[v.ID] {
						ran(r, n)
					}
				}
			}
			done[n] = true
		}
		for _, n := range g.Nodes {
			if n.Phase == graph.Update && !done[n] {
				t.Fatalf("%v is left out", n)
			}
		}
	})
}
