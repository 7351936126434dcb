package fuse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// build makes a graph. Its outputs are the values that f returns.
func build(t *testing.T, f func(b *graph.Builder) []*graph.Value) *graph.Graph {
	t.Helper()
	b := graph.NewBuilder("test", 1)
	for _, v := range f(b) {
		b.Output(v.Name, v)
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// text is a cluster per line: its name, the values that it reads, writes and keeps
// inside, and those that may be computed in place.
func text(c *fuse.Cuts) string {
	names := func(vs []*graph.Value) string {
		var s []string
		for _, v := range vs {
			s = append(s, v.Name)
		}
		return strings.Join(s, " ")
	}
	var lines []string
	for _, k := range c.Clusters {
		line := fmt.Sprintf("%s: %s -> %s", k.Name(), names(k.In), names(k.Out))
		if k.Inner != nil {
			line += " inside " + names(k.Inner)
		}
		for o, js := range k.Alias {
			for _, j := range js {
				line += fmt.Sprintf(" %s@%s", k.Out[o].Name, k.In[j].Name)
			}
		}
		if k.Raw >= 0 {
			line += " head in " + k.Out[k.Raw].Name
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestClusters(t *testing.T) {
	for _, c := range []struct {
		name  string
		alias []int
		build func(b *graph.Builder) []*graph.Value
		want  string
	}{
		{"a dense layer and what its backward pass reads", nil, func(b *graph.Builder) []*graph.Value {
			x, w, bias := b.Input("x", shape.F32(4, 8)), b.Input("w", shape.F32(8, 16)), b.Input("b", shape.F32(16))
			pre := ops.Add(b, ops.MatMulOf(b, x, w, false, false), bias)
			return []*graph.Value{pre, ops.GeluTanh(b, pre)}
		}, "matmul+add: x w b -> add inside matmul head in add\ngelu_tanh: add -> gelu_tanh gelu_tanh@add"},
		{"its activation alone, and a residual in place", nil, func(b *graph.Builder) []*graph.Value {
			x, w, r := b.Input("x", shape.F32(4, 8)), b.Input("w", shape.F32(8, 16)), b.Input("r", shape.F32(64))
			y := ops.Relu(b, ops.MatMulOf(b, x, w, false, false))
			return []*graph.Value{y, ops.Add(b, ops.ReshapeTo(b, r, 4, 16), y)}
		}, "reshape: r -> reshape reshape@r\nmatmul+relu: x w -> relu inside matmul head in relu\nadd: reshape relu -> add add@reshape"},
		{"the bias of a convolution is a value per row", nil, func(b *graph.Builder) []*graph.Value {
			x, bias := b.Input("x", shape.F32(2, 3, 5, 5)), b.Input("b", shape.F32(3, 1, 1))
			return []*graph.Value{ops.Relu(b, ops.Add(b, x, bias))}
		}, "add+relu: x b -> relu inside add relu@x"},
		{"and follows the convolution", nil, func(b *graph.Builder) []*graph.Value {
			x, w, bias := b.Input("x", shape.F32(2, 3, 5, 5)), b.Input("w", shape.F32(4, 3, 3, 3)), b.Input("b", shape.F32(4, 1, 1))
			return []*graph.Value{ops.Relu(b, ops.Add(b, ops.Conv2DOf(b, x, w, 1, 1, 1), bias))}
		}, "conv2d+add+relu: x w b -> relu inside conv2d add head in relu"},
		{"two ways between nodes, one through a sum", nil, func(b *graph.Builder) []*graph.Value {
			y := ops.Exp(b, b.Input("x", shape.F32(4, 8)))
			return []*graph.Value{ops.Div(b, y, ops.Sum(b, y, true, 1))}
		}, "exp: x -> exp exp@x\nreduce_sum: exp -> reduce_sum\ndiv: exp reduce_sum -> div div@exp"},
		{"the gradient of its bias, which sums planes", nil, func(b *graph.Builder) []*graph.Value {
			idx, dy, y := b.Input("idx", shape.I32(2, 3, 2, 2)), b.Input("dy", shape.F32(2, 3, 2, 2)), b.Input("y", shape.F32(2, 3, 4, 4))
			dx := b.One(ops.UnaryGrad{Fn: "relu"}, y, b.One(ops.MaxPool2DGrad{H: 4, W: 4}, idx, dy))
			return []*graph.Value{ops.SumToShape(b, dx, shape.Of(3, 1, 1)), ops.SumToShape(b, dx, shape.Of(4, 4))}
		}, "max_pool2d_grad+relu_grad+sum_to: idx dy y -> relu_grad sum_to inside max_pool2d_grad head in relu_grad\nsum_to: relu_grad -> sum_to.1"},
		{"a loss, its gradient and the right answers, row by row", nil, func(b *graph.Builder) []*graph.Value {
			x, targets := b.Input("x", shape.F32(4, 8)), b.Input("t", shape.I32(4))
			loss := b.Apply(ops.CrossEntropy{}, x, targets)
			dx := b.One(ops.CrossEntropyGrad{}, x, targets, loss[1], b.Input("d", shape.F32()))
			return []*graph.Value{loss[0], b.One(ops.Correct{}, x, targets), dx, b.One(ops.CrossEntropyGrad{}, x, targets, loss[1], loss[0])}
		}, "cross_entropy+cross_entropy_grad+correct: x t d -> cross_entropy cross_entropy:1 cross_entropy_grad correct\ncross_entropy_grad: x t cross_entropy:1 cross_entropy -> cross_entropy_grad.1 cross_entropy_grad.1@x"},
		{"small updates, side by side and in place", nil, func(b *graph.Builder) []*graph.Value {
			lr := b.Input("lr", shape.F32())
			w, u, v := b.Input("w", shape.F32(8)), b.Input("u", shape.F32(3)), b.Input("v", shape.F32(1<<18))
			var out []*graph.Value
			for _, x := range []*graph.Value{w, v, u} {
				out = append(out, b.One(ops.SGD{Scale: 1}, x, x, lr))
			}
			return append(out, b.One(ops.SGD{Scale: 1}, w, out[0], lr))
		}, "2 sgd: w lr u -> sgd sgd.2\nsgd: v v lr -> sgd.1 sgd.1@v\nsgd: w sgd lr -> sgd.3 sgd.3@w"},
		{"a small tensor that is stretched", nil, func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.Add(b, b.Input("x", shape.F32(4, 8)), ops.Neg(b, b.Input("y", shape.F32(8))))}
		}, "neg: y -> neg neg@y\nadd: x neg -> add add@x"},
		{"rows of two lengths", nil, func(b *graph.Builder) []*graph.Value {
			y := ops.Add(b, b.Input("x", shape.F32(4, 9)), b.Input("y", shape.F32(9)))
			return []*graph.Value{ops.Mul(b, ops.ReshapeTo(b, y, 9, 4), b.Input("z", shape.F32(4)))}
		}, "add: x y -> add add@x\nreshape: add -> reshape reshape@add\nmul: reshape z -> mul mul@reshape"},
		{"a view between two nodes", nil, func(b *graph.Builder) []*graph.Value {
			y := ops.Neg(b, b.Input("x", shape.F32(4, 8)))
			return []*graph.Value{ops.Exp(b, ops.ReshapeTo(b, y, 32)), ops.ReshapeTo(b, y, 8, 4)}
		}, "neg+exp: x -> neg exp neg@x exp@x\nreshape: neg -> reshape reshape@neg\nreshape: neg -> reshape.1 reshape.1@neg"},
		{"a reader of a donated input runs first", []int{0, -1}, func(b *graph.Builder) []*graph.Value {
			x := b.Input("x", shape.F32(8))
			s := ops.Sum(b, ops.Exp(b, x), false)
			y := ops.Neg(b, x)
			return []*graph.Value{y, ops.Add(b, y, ops.Mul(b, x, s))}
		}, "exp: x -> exp exp@x\nreduce_sum: exp -> reduce_sum\nneg+mul+add: x reduce_sum -> neg add inside mul add@x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text(fuse.Cut(build(t, c.build), c.alias)); got != c.want {
				t.Errorf("clusters:\n%s\nexpected:\n%s", got, c.want)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	g := build(t, func(b *graph.Builder) []*graph.Value {
		x, w := b.Input("x", shape.F32(2048, 128)), b.Input("w", shape.F32(128, 128))
		y := ops.Relu(b, ops.MatMulOf(b, ops.Exp(b, x), w, false, false))
		z := ops.Add(b, y, ops.MatMulOf(b, y, w, false, false))
		s := ops.Sum(b, z, true, 0)
		return []*graph.Value{ops.Div(b, z, ops.Neg(b, s))}
	})
	const want = `    1 x matmul+relu: 2,048 rows of 128, 1.0 MiB stay inside
alone
    1 x exp: matmul reads its operands many times
    1 x matmul: apart is cheaper: in one pass, 2 tensors of 1.0 MiB by parts of rows take 16.4 µs; writing and reading one more takes 10.2 µs
    1 x add: apart is cheaper: in one pass, 3 tensors of 1.0 MiB by parts of rows take 24.6 µs; writing and reading one more takes 10.2 µs
    1 x reduce_sum: is known only at the end of a sum
    1 x neg: reduce_sum is known only at the end of a sum
    1 x div: reduce_sum comes between
not fused
    1 x exp -> matmul: matmul reads its operands many times
    1 x relu -> matmul: matmul reads its operands many times
    1 x relu -> add: apart is cheaper: in one pass, 3 tensors of 1.0 MiB by parts of rows take 24.6 µs; writing and reading one more takes 10.2 µs
    1 x matmul -> add: apart is cheaper: in one pass, 2 tensors of 1.0 MiB by parts of rows take 16.4 µs; writing and reading one more takes 10.2 µs
    1 x add -> reduce_sum: reduce_sum is known only at the end of a sum
    1 x reduce_sum -> neg: reduce_sum is known only at the end of a sum
    1 x add -> div: reduce_sum comes between
    1 x neg -> div: 128 elements do not go with 2,048 rows of 128
`
	if got := fuse.Cut(g, nil).String(); got != want {
		t.Errorf("got:\n%s\nexpected:\n%s", got, want)
	}
}

// Each node is in a cluster with others, or is kept out of all for a reason.
func TestKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cuts := fuse.Cut(drawGraph(t), nil)
		alone := map[*graph.Node]bool{}
		for _, k := range cuts.Clusters {
			if n := k.Nodes[0]; len(k.Nodes) == 1 && !fuse.IsView(n) {
				alone[n] = true
			}
		}
		for _, k := range cuts.Kept() {
			if !alone[k.Node] || k.Why == "" {
				t.Fatalf("%v is kept out: %q", k.Node, k.Why)
			}
			delete(alone, k.Node)
		}
		for n := range alone {
			t.Fatalf("%v is alone without a reason", n)
		}
	})
}

// drawGraph makes a random graph of elementwise ops, broadcasts, products, sums
// and views.
func drawGraph(t *rapid.T) *graph.Graph {
	b := graph.NewBuilder("random", 1)
	rows, cols := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "cols")
	values := []*graph.Value{b.Input("x", shape.F32(rows, cols)), b.Input("y", shape.F32(cols)), b.Input("z", shape.F32(rows, 1)), b.Input("w", shape.F32(cols, cols))}
	for range rapid.IntRange(1, 20).Draw(t, "nodes") {
		v := rapid.SampledFrom(values).Draw(t, "a")
		u := rapid.SampledFrom(values).Draw(t, "b")
		switch op := rapid.IntRange(0, 5).Draw(t, "op"); {
		case op == 0 && v.Meta.Shape.Dim(-1) == cols && v.Meta.Shape.Rank() == 2:
			v = ops.MatMulOf(b, v, values[3], false, false)
		case op == 1:
			v = ops.Sum(b, v, true, 0)
		case op == 2:
			v = ops.ReshapeTo(b, v, v.Meta.Elems())
		case op == 3:
			v = ops.Tanh(b, v)
		default:
			if _, err := shape.Broadcast(v.Meta.Shape, u.Meta.Shape); err != nil {
				continue
			}
			v = ops.Mul(b, v, u)
		}
		values = append(values, v)
	}
	for i, v := range values {
		if v.Node != nil && (i == len(values)-1 || rapid.IntRange(0, 3).Draw(t, "output") == 0) {
			b.Output(fmt.Sprint("out", i), v)
		}
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestClustersCanRun checks random graphs: every node is in one cluster, the values
// that a cluster reads are there, and values that are read later are written.
func TestClustersCanRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		there := map[*graph.Value]bool{}
		for _, v := range g.Inputs {
			there[v] = true
		}
		nodes := 0
		for _, c := range fuse.Cut(g, nil).Clusters {
			nodes += len(c.Nodes)
			for _, v := range c.In {
				if !there[v] && !fuse.IsView(c.Nodes[0]) {
					t.Fatalf("%s reads %s, which is not there", c.Name(), v.Name)
				}
			}
			inside := map[*graph.Value]bool{}
			for i, n := range c.Nodes {
				for _, v := range reads(c, i) {
					if !inside[v] && !there[v] {
						t.Fatalf("%v in %s comes before what it reads", n, c.Name())
					}
				}
				for _, v := range n.Out {
					inside[v] = true
				}
			}
			for _, v := range c.Out {
				there[v] = true
			}
		}
		if nodes != len(g.Nodes) {
			t.Fatalf("%d nodes are in clusters, the graph has %d", nodes, len(g.Nodes))
		}
		for _, v := range g.Outputs {
			if !there[v] && !fuse.IsView(v.Node) {
				t.Fatalf("output %s is not written", v.Name)
			}
		}
	})
}

// reads are the values that node i of a cluster reads.
func reads(c *fuse.Cluster, i int) []*graph.Value {
	switch {
	case c.Reads != nil:
		return c.Reads[i]
	case fuse.IsView(c.Nodes[i]):
		return nil // its value may live inside another cluster
	}
	return c.Nodes[i].In
}

// Recomputed nodes stay apart from the forward pass: fused with it, their values
// would be kept from there on.
func TestRecomputedStaysApart(t *testing.T) {
	m := shape.F32(4, 8)
	for _, recomputed := range []bool{false, true} {
		g := build(t, func(b *graph.Builder) []*graph.Value {
			x := ops.Tanh(b, b.Input("x", m))
			defer b.InPhase(graph.Backward)()
			return []*graph.Value{ops.Neg(b, ops.Exp(b, x))}
		})
		g.Nodes[1].Recomputed = recomputed
		want := 1
		if recomputed {
			want = 2
		}
		if c := fuse.Cut(g, nil); c.Kernels() != want {
			t.Errorf("recomputed %v: %d kernels, want %d\n%s", recomputed, c.Kernels(), want, text(c))
		}
	}
}

// A node that may end the step does not keep nodes apart that write in donated
// memory; it runs before them.
func TestDonatedMemoryWaitsForChecks(t *testing.T) {
	m := shape.F32(4)
	g := build(t, func(b *graph.Builder) []*graph.Value {
		y := ops.Tanh(b, b.Input("x", m))
		w := ops.Add(b, b.Input("w", m), y)
		loss := b.One(ops.CheckFinite{}, b.One(ops.Reduce{Fn: "sum", Axes: []int{0}}, y))
		return []*graph.Value{loss, w}
	})
	j := slices.IndexFunc(g.Inputs, func(v *graph.Value) bool { return v.Name == "w" })
	if c := fuse.Cut(g, []int{-1, j}); c.Kernels() != 4 {
		t.Errorf("tanh and add are one cluster, which would write before the check:\n%s", text(c))
	}
}
