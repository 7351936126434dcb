package ops_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// guardsOf lists the guards of each node by the name of its result: "p", and "!p" for Else.
func guardsOf(t *testing.T, b *graph.Builder) map[string][]string {
	t.Helper()
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	needs, of := graph.NeedsOf(g), map[string][]string{}
	for i, n := range g.Nodes {
		list := []string{}
		for _, x := range needs.Guards(i) {
			name := x.Value.Name
			if x.Else {
				name = "!" + name
			}
			list = append(list, name)
		}
		of[n.Out[0].Name] = list
	}
	return of
}

// What a branch computes has its predicate as a guard, that of a branch in it both, and the
// predicate in it only the outer one. What gets out of a branch in another way has none.
func TestGuardsOfBranches(t *testing.T) {
	b := graph.NewBuilder("guards", 1)
	p, x := b.Input("p", shape.F32()), b.Input("x", shape.F32(2))
	list := func(v *graph.Value) []*graph.Value { return []*graph.Value{v} }
	var leak *graph.Value
	y := ops.Cond(b, p, func(b *graph.Builder) []*graph.Value {
		leak = ops.Exp(b, x)
		z := ops.Neg(b, leak)
		q := ops.Equal(b, ops.Sum(b, z, false), ops.Sum(b, z, false))
		return ops.Cond(b, q, func(b *graph.Builder) []*graph.Value { return list(ops.Tanh(b, z)) },
			func(b *graph.Builder) []*graph.Value { return list(ops.Sigmoid(b, z)) })
	}, func(b *graph.Builder) []*graph.Value { return list(ops.Sqrt(b, x)) })
	b.Output("leak", leak)
	b.Output("y", y[0])
	d := b.Gradients(ops.Sum(b, y[0], false), ops.Const(b, shape.F32(), 1), []*graph.Value{x}, ops.AddOp)[x]
	for i, part := range d {
		b.Output(fmt.Sprint("d", i), part)
	}
	of := guardsOf(t, b)
	for name, want := range map[string][]string{
		"leak": {}, "neg": {"p"}, "equal": {"p"}, "tanh": {"p", "equal"}, "sigmoid": {"p", "!equal"}, "sqrt": {"!p"}, "y": {},
		"backward/tanh_grad": {"p", "equal"}, "backward/sigmoid_grad": {"p", "!equal"}, "backward/sqrt_grad": {"!p"}, "backward/exp_grad": {"p"}, "backward/neg": {"p"},
	} {
		if got, has := of[name]; !has || !slices.Equal(got, want) {
			t.Errorf("%s has the guards %v, want %v", name, got, want)
		}
	}
	if t.Failed() {
		t.Log(of)
	}
}

// Each iteration waits for its own predicate, and no predicate for its own.
func TestGuardsOfIterations(t *testing.T) {
	b := graph.NewBuilder("guards", 1)
	x := b.Input("x", shape.F32(2))
	last := ops.While(b, 20, []*graph.Value{x},
		func(b *graph.Builder, c []*graph.Value) *graph.Value {
			return ops.Less(b, ops.Sum(b, c[0], false), ops.Const(b, shape.F32(), 9))
		},
		func(b *graph.Builder, c []*graph.Value) []*graph.Value { return []*graph.Value{ops.Exp(b, c[0])} })
	b.Output("y", last[0])
	of := guardsOf(t, b)
	for k := range 20 {
		name := func(s string) string {
			if k == 0 {
				return s
			}
			return fmt.Sprint(s, ".", k)
		}
		if got := of[name("exp")]; !slices.Equal(got, []string{name("less")}) {
			t.Errorf("iteration %d has the guards %v", k, got)
		}
		if got := of[name("less")]; len(got) > 0 {
			t.Errorf("the predicate of iteration %d has the guards %v", k, got)
		}
	}
}

// A segment that has only an empty broadcast of a predicate cannot ask it.
func TestNoGuardWithoutItsNumber(t *testing.T) {
	for _, rows := range []int{0, 2} {
		b := graph.NewBuilder("guards", 1)
		p, x := b.Input("p", shape.F32()), b.Input("x", shape.F32(rows))
		list := func(v *graph.Value) []*graph.Value { return []*graph.Value{v} }
		y := ops.Cond(b, p, func(b *graph.Builder) []*graph.Value { return list(ops.Exp(b, x)) },
			func(*graph.Builder) []*graph.Value { return list(x) })
		b.Output("y", y[0])
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		segment := &graph.Graph{Name: "segment", Inputs: []*graph.Value{y[0].Node.In[0], x}, Outputs: y}
		for _, n := range g.Nodes {
			if n.Op.Kind() != "broadcast_to" {
				segment.Nodes = append(segment.Nodes, n)
			}
		}
		if got, want := graph.NeedsOf(segment).Any(), rows > 0; got != want {
			t.Errorf("%d rows: guarded is %v, want %v", rows, got, want)
		}
	}
}

// A number that a guard asks is computed wherever its node may run, though others need it less.
func TestGuardsNeedTheirNumbers(t *testing.T) {
	b := graph.NewBuilder("guards", 1)
	outer, p, x := b.Input("outer", shape.F32()), b.Input("p", shape.F32()), b.Input("x", shape.F32(2))
	var inner, y *graph.Value
	b.Branch(func(v *graph.Value) *graph.Value { return v }, func() { inner, y = ops.Neg(b, p), ops.Exp(b, x) })
	b.Output("inner", inner)
	b.Output("y", y)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	for _, both := range []bool{false, true} {
		g.Needed = [][]graph.Guard{{{Value: outer}}, {{Value: inner}}}
		want := 0
		if both {
			g.Needed[1], want = append(g.Needed[1], graph.Guard{Value: outer}), 1
		}
		needs := graph.NeedsOf(g)
		if got := len(needs.Guards(0)); got != want || len(needs.Guards(1)) != 1+want {
			t.Errorf("the number has %d guards and its reader %d, want %d and %d", got, len(needs.Guards(1)), want, 1+want)
		}
	}
}
