package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// TestUses lists, per step, the inputs that it is the first to read and to overwrite,
// and the outputs that are complete after it.
func TestUses(t *testing.T) {
	m := shape.F32(16)
	four := func(b *graph.Builder) []*graph.Value {
		x, y, w := b.Input("x", m), b.Input("y", m), b.Input("w", m)
		first := ops.Neg(b, x)
		return []*graph.Value{first, ops.Mul(b, x, y), ops.Add(b, w, y), ops.Exp(b, first)}
	}
	for _, c := range []struct {
		name  string
		alias []int
		check bool
		build func(b *graph.Builder) []*graph.Value
		want  string
	}{
		{"in order", nil, false, four, "neg [0] [] [0]\nmul [1] [] [1]\nadd [2] [] [2]\nexp [] [] []"},
		{"one takes over an input", []int{-1, -1, 2, -1}, false, four, "neg [0] [] [0]\nmul [1] [] [1]\nadd [2] [2] []\nexp [] [] []"},
		{"any may fail", nil, true, four, "neg [0] [] []\nmul [1] [] []\nadd [2] [] []\nexp [] [] []"},
		{"one may fail", nil, false, func(b *graph.Builder) []*graph.Value {
			x, y := b.Input("x", m), b.Input("y", m)
			return []*graph.Value{ops.Neg(b, x), b.One(ops.CheckFinite{}, b.Input("loss", shape.F32())), ops.Exp(b, x), ops.Neg(b, y)}
		}, "neg [0] [] []\ncheck_finite [2] [] [1]\nexp [] [] [2]\nneg [1] [] []"},
		{"empty", nil, false, func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.Neg(b, b.Input("none", shape.F32(0))), ops.Neg(b, b.Input("x", m)), ops.Exp(b, b.Input("none too", shape.F32(0)))}
		}, "neg [] [] []\nneg [1] [] []\nexp [] [] []"},
	} {
		p, err := New(devicetest.Segment(t, c.build), device.CompileOptions{Alias: c.alias, CheckFinite: c.check}, Options{Align: alignment, Alone: true})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var lines []string
		for _, st := range p.Steps {
			lines = append(lines, fmt.Sprint(st.Cluster.Name(), " ", st.Reads, st.Overwrites, st.Completes))
		}
		if got := strings.ReplaceAll(strings.Join(lines, "\n"), "][", "] ["); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
