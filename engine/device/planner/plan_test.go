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

// text shows a plan: one line per step, its storages by class and, for
// temporaries, by offset in units of 64 bytes.
func (p *Plan) text() string {
	name := func(s *Storage) string {
		if s.Class == Temporary {
			return fmt.Sprintf("t%d", s.Off/alignment)
		}
		return fmt.Sprintf("%c%d", "io"[s.Class], s.Index)
	}
	var lines []string
	for _, st := range p.Steps {
		line := "copy"
		if st.Cluster != nil {
			line = st.Cluster.Name()
		}
		for _, s := range st.In {
			line += " " + name(s)
		}
		line += " ->"
		for _, s := range st.Out {
			line += " " + name(s)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestPlans plans nodes one by one, as with CheckFinite.
func TestPlans(t *testing.T) {
	m := shape.F32(16) // 64 bytes
	for _, c := range []struct {
		name  string
		alias []int
		build func(b *graph.Builder) []*graph.Value
		want  string
		arena int64
	}{
		{"a chain works in place", nil, func(b *graph.Builder) []*graph.Value {
			x := ops.Exp(b, ops.Neg(b, ops.Tanh(b, b.Input("x", m))))
			return []*graph.Value{ops.Neg(b, x)}
		}, "tanh i0 -> t0\nneg t0 -> t0\nexp t0 -> t0\nneg t0 -> o0", 64},
		{"not in place while another node still reads", nil, func(b *graph.Builder) []*graph.Value {
			x := ops.Tanh(b, b.Input("x", m))
			y := ops.Neg(b, x)
			return []*graph.Value{ops.Add(b, y, x)}
		}, "tanh i0 -> t0\nneg t0 -> t1\nadd t1 t0 -> o0", 128},
		{"not in place when the node reads it twice", nil, func(b *graph.Builder) []*graph.Value {
			x := ops.Tanh(b, b.Input("x", m))
			y := ops.Mul(b, x, x)
			return []*graph.Value{ops.Neg(b, y)}
		}, "tanh i0 -> t0\nmul t0 t0 -> t1\nneg t1 -> o0", 128},
		{"what is donated stays as it is until nothing can end the launch", []int{-1, 0}, func(b *graph.Builder) []*graph.Value {
			w, x := b.Input("w", m), b.Input("x", shape.F32())
			y := ops.Neg(b, w)
			return []*graph.Value{b.One(ops.CheckFinite{}, ops.Exp(b, ops.Tanh(b, x))), y}
		}, "tanh i1 -> t0\nexp t0 -> t0\ncheck_finite t0 -> o0\nneg i0 -> o1", 64},
		{"variables are written last, with what depends on them", []int{0, -1, 1, -1}, func(b *graph.Builder) []*graph.Value {
			v, w, x := b.Input("v", m), b.Input("w", m), b.Input("x", m)
			next := ops.Add(b, v, x)
			speed := ops.Exp(b, next)
			slope := ops.Neg(b, x)
			return []*graph.Value{next, speed, ops.Mul(b, w, ops.Tanh(b, slope)), ops.Sum(b, slope, false, 0)}
		}, "neg i2 -> t0\ntanh t0 -> t1\nreduce_sum t0 -> o3\nadd i0 i2 -> o0\nexp o0 -> o1\nmul i1 t1 -> o2", 128},
		{"a view keeps its storage alive", nil, func(b *graph.Builder) []*graph.Value {
			x := ops.Tanh(b, b.Input("x", m))
			v := ops.ReshapeTo(b, x, 4, 4)
			y := ops.Neg(b, x)
			return []*graph.Value{ops.Neg(b, y), ops.Sum(b, v, false, 0, 1)}
		}, "tanh i0 -> t0\nneg t0 -> t1\nneg t1 -> o0\nreduce_sum t0 -> o1", 128},
		{"an input is never overwritten", nil, func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.Neg(b, ops.Neg(b, ops.ReshapeTo(b, b.Input("x", m), 4, 4)))}
		}, "neg i0 -> t0\nneg t0 -> o0", 64},
		{"a donated one is", []int{0}, func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.Neg(b, b.Input("x", m))}
		}, "neg i0 -> o0", 0},
		{"but not by a node that cannot", []int{1}, func(b *graph.Builder) []*graph.Value {
			x, y := b.Input("x", m), b.Input("y", m)
			return []*graph.Value{ops.Sub(b, x, y)}
		}, "sub i0 i1 -> t0\ncopy t0 -> o0", 64},
		{"its readers come first", []int{0, -1}, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", m)
			return []*graph.Value{ops.Neg(b, x), ops.Exp(b, x)}
		}, "exp i0 -> o1\nneg i0 -> o0", 0},
		{"also copies of it", []int{0, -1}, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", m)
			return []*graph.Value{ops.Neg(b, x), x}
		}, "copy i0 -> o1\nneg i0 -> o0", 0},
		{"handed through in its own memory", []int{0}, func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{b.Input("x", m)}
		}, "", 0},
		{"one value as two outputs", nil, func(b *graph.Builder) []*graph.Value {
			y := ops.Neg(b, b.Input("x", m))
			return []*graph.Value{y, y}
		}, "neg i0 -> o0\ncopy o0 -> o1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(devicetest.Segment(t, c.build), device.CompileOptions{Alias: c.alias, CheckFinite: true}, Options{Align: alignment})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.text(); got != c.want || p.TempBytes != c.arena {
				t.Errorf("%d bytes:\n%s\nexpected %d bytes:\n%s", p.TempBytes, got, c.arena, c.want)
			}
		})
	}
}

// TestPlansOfClusters plans fused graphs.
func TestPlansOfClusters(t *testing.T) {
	m := shape.F32(16) // 64 bytes
	for _, c := range []struct {
		name  string
		alias []int
		build func(b *graph.Builder) []*graph.Value
		want  string
		arena int64
	}{
		{"what stays inside has no storage", nil, func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.Neg(b, ops.Exp(b, ops.Tanh(b, b.Input("x", m))))}
		}, "tanh+exp+neg i0 -> o0", 0},
		{"a temporary is taken over after its last reader", nil, func(b *graph.Builder) []*graph.Value {
			x := ops.Tanh(b, ops.Sum(b, b.Input("x", shape.F32(2, 16)), false, 0))
			y := ops.Neg(b, ops.Exp(b, x))
			return []*graph.Value{ops.Sum(b, ops.ReshapeTo(b, y, 4, 4), false, 0), ops.Sum(b, x, false)}
		}, "reduce_sum i0 -> t0\ntanh+exp+neg t0 -> t0 t1\nreduce_sum t1 -> o0\nreduce_sum t0 -> o1", 128},
		{"a donated input, read by another node of the cluster before", []int{0, -1}, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", m)
			e := ops.Exp(b, x)
			return []*graph.Value{ops.Mul(b, e, x), e}
		}, "exp+mul i0 -> o1 o0", 0},
		{"but not one that is read after", []int{0, -1}, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", m)
			e := ops.Exp(b, x)
			return []*graph.Value{e, ops.Mul(b, e, x)}
		}, "exp+mul i0 -> t0 o1\ncopy t0 -> o0", 64},
		{"a product where its epilogue writes", nil, func(b *graph.Builder) []*graph.Value {
			x, w := b.Input("x", shape.F32(4, 4)), b.Input("w", shape.F32(4, 4))
			return []*graph.Value{ops.Relu(b, ops.Add(b, ops.MatMulOf(b, x, w, false, false), b.Input("b", shape.F32(4))))}
		}, "matmul+add+relu i0 i1 i2 -> o0", 0},
		{"a view of what stays inside", nil, func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.Neg(b, ops.ReshapeTo(b, ops.Exp(b, b.Input("x", m)), 4, 4))}
		}, "exp+neg i0 -> o0", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(devicetest.Segment(t, c.build), device.CompileOptions{Alias: c.alias}, Options{Align: alignment})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.text(); got != c.want || p.TempBytes != c.arena {
				t.Errorf("%d bytes:\n%s\nexpected %d bytes:\n%s", p.TempBytes, got, c.arena, c.want)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	m := shape.F32(16)
	for _, c := range []struct {
		name  string
		alias []int
		words string
		build func(b *graph.Builder) []*graph.Value
	}{
		{"a swap", []int{0, 1}, "takes over input x", func(b *graph.Builder) []*graph.Value {
			x, y := b.Input("x", m), b.Input("y", m)
			return []*graph.Value{y, x}
		}},
		{"a donation between different metadata", []int{0}, "metadata differ", func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.ReshapeTo(b, b.Input("x", m), 4, 4)}
		}},
		{"an input that is not there", []int{3}, "does not exist", func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.Neg(b, b.Input("x", m))}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(devicetest.Segment(t, c.build), device.CompileOptions{Alias: c.alias}, Options{Align: alignment})
			if err == nil || !strings.Contains(err.Error(), "BUG") || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, expected BUG and %q", err, c.words)
			}
		})
	}
}

// counted is an op that counts how often it is looked at.
type counted struct {
	graph.Op
	looks *int
}

func (c counted) Kind() string {
	*c.looks++
	return c.Op.Kind()
}

// Four times as many variables are planned with four times the work: each
// writes in donated memory, after the check that may end the step.
func TestPlanOfManyVariables(t *testing.T) {
	looks := func(n int) (looks int) {
		b := graph.NewBuilder("update", 1)
		x := b.Input("x", shape.F32(4))
		b.Output("loss", b.One(ops.CheckFinite{}, b.One(ops.Reduce{Fn: "sum", Axes: []int{0}}, x)))
		alias := []int{-1}
		for i := range n {
			w := b.Input(fmt.Sprint("w", i), shape.F32(4))
			b.Output(fmt.Sprint("new", i), b.One(counted{ops.Binary{Fn: "add"}, &looks}, w, x))
			alias = append(alias, i+1)
		}
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		looks = 0
		if _, err := New(g, device.CompileOptions{Alias: alias}, Options{Align: alignment}); err != nil {
			t.Fatal(err)
		}
		return looks
	}
	if once, more := looks(300), looks(1200); more > 5*once {
		t.Errorf("%d looks at 300 variables, %d at 1200", once, more)
	}
}
