package calls_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/calls"
)

// segment is a segment of the nodes that build appends, from two inputs.
func segment(t *testing.T, build func(b *graph.Builder, x, y *graph.Value) []*graph.Value) *graph.Graph {
	t.Helper()
	b := graph.NewBuilder("s0.F", 1)
	x, y := b.Input("x", shape.F32(2, 3)), b.Input("y", shape.F32(2, 3))
	for i, v := range build(b, x, y) {
		b.Output(fmt.Sprintf("out%d", i), v)
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// text is calls in short: "add(x, t0:add) -> t0; over t0". A temporary is numbered.
func text(list []calls.Call) (lines []string) {
	number := map[*calls.Memory]int{}
	name := func(m *calls.Memory) string {
		switch m.Class {
		case calls.Input:
			return fmt.Sprintf("in%d", m.Index)
		case calls.Output:
			return fmt.Sprintf("out%d", m.Index)
		}
		if _, known := number[m]; !known {
			number[m] = len(number)
		}
		return fmt.Sprintf("t%d", number[m])
	}
	names := func(ms []*calls.Memory) string {
		var list []string
		for _, m := range ms {
			list = append(list, name(m))
		}
		return strings.Join(list, " ")
	}
	for i := range list {
		c := &list[i]
		op := "copy"
		if c.Node != nil {
			op = c.Node.Op.Kind()
		}
		line := fmt.Sprintf("%s(%s) -> %s", op, names(c.In), names(c.Out))
		if len(c.Over) > 0 {
			line += ", over " + names(c.Over)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestCut(t *testing.T) {
	relu, add, mul := ops.Unary{Fn: "relu"}, ops.Binary{Fn: "add"}, ops.Binary{Fn: "mul"}
	flat := ops.Reshape{Shape: shape.Of(6)}
	for name, c := range map[string]struct {
		build func(b *graph.Builder, x, y *graph.Value) []*graph.Value
		alias []int
		want  []string
	}{
		"temporaries in place": {
			func(b *graph.Builder, x, y *graph.Value) []*graph.Value {
				return []*graph.Value{b.One(mul, b.One(relu, b.One(add, x, y)), x)}
			}, nil,
			[]string{"add(in0 in1) -> t0", "relu(t0) -> t0", "mul(t0 in0) -> out0, over t0"},
		},
		"one input twice": {
			func(b *graph.Builder, x, y *graph.Value) []*graph.Value { return []*graph.Value{b.One(add, x, x)} }, nil,
			[]string{"add(in0) -> out0"},
		},
		"a reshape between two ops": {
			func(b *graph.Builder, x, y *graph.Value) []*graph.Value {
				return []*graph.Value{b.One(relu, b.One(flat, b.One(add, x, y)))}
			}, nil,
			[]string{"add(in0 in1) -> t0", "relu(t0) -> out0, over t0"},
		},
		"a reshape in place has a memory of its own": {
			func(b *graph.Builder, x, y *graph.Value) []*graph.Value {
				return []*graph.Value{b.One(relu, b.One(relu, b.One(flat, b.One(add, x, y))))}
			}, nil,
			[]string{"add(in0 in1) -> t0", "relu(t0) -> t1, over t0", "relu(t1) -> out0, over t1"},
		},
		"outputs that are an input, its reshape, and equal": {
			func(b *graph.Builder, x, y *graph.Value) []*graph.Value {
				sum := b.One(add, x, y)
				return []*graph.Value{x, b.One(flat, y), sum, sum}
			}, nil,
			[]string{"add(in0 in1) -> out2", "copy(in0) -> out0", "copy(in1) -> out1", "copy(out2) -> out3"},
		},
		"an input is overwritten after its last reader": {
			func(b *graph.Builder, x, y *graph.Value) []*graph.Value {
				next := b.One(add, x, y)
				return []*graph.Value{next, b.One(relu, x)}
			}, []int{0, -1},
			[]string{"relu(in0) -> out1", "add(in0 in1) -> in0"},
		},
		"inputs are handed through": {
			func(b *graph.Builder, x, y *graph.Value) []*graph.Value { return []*graph.Value{x, y} }, []int{0, 1}, nil,
		},
	} {
		g := segment(t, c.build)
		list, err := calls.Cut(g, c.alias, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := text(list); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		for i := range list {
			x := &list[i]
			if !x.Graph.Inputs[0].Meta.Equal(x.In[0].Meta) || !x.Graph.Outputs[0].Meta.Equal(x.Out[0].Meta) {
				t.Errorf("%s: call %d is of %v, its memory is %v and %v", name, i, x.Graph.Nodes, x.In[0].Meta, x.Out[0].Meta)
			}
		}
	}
}

func TestCutStops(t *testing.T) {
	stop := errors.New("stop")
	g := segment(t, func(b *graph.Builder, x, y *graph.Value) []*graph.Value { return []*graph.Value{ops.Add(b, x, y)} })
	if _, err := calls.Cut(g, nil, func() error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}
