package nodes

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
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
		}, "read Builder.Accumulate of it"},
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
