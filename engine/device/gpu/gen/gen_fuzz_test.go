package gen

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Whatever the cluster, its kernels are texts with balanced brackets, whose parameters
// match their arguments.
func FuzzKernels(f *testing.F) {
	for seed := range 50 {
		f.Add(seed)
	}
	clusters := rapid.Custom(drawClusters)
	f.Fuzz(func(t *testing.T, seed int) {
		for _, c := range clusters.Example(seed) {
			if fuse.IsView(c.Nodes[0]) {
				continue
			}
			calls, scratch, err := Cluster(c)
			if err != nil {
				continue // an attribute that no template covers
			}
			again, _, _ := Cluster(c)
			if !reflect.DeepEqual(calls, again) {
				t.Fatalf("%s: the kernels differ when they are written again", c.Describe())
			}
			for _, call := range calls {
				if err := wellFormed(c, call, scratch); err != nil {
					t.Fatalf("%s: %v:\n%s", c.Describe(), err, call.Source)
				}
			}
		}
	})
}

// drawClusters draws a node with any sizes, a node of any kind, or a graph, fused.
func drawClusters(t *rapid.T) []*fuse.Cluster {
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		draw := rapid.SampledFrom(kernelstest.Fusable).Draw(t, "sort")
		return fuse.Cut(draw(t), nil).Clusters
	case 1:
		s := kernelstest.Cases[rapid.SampledFrom(Kinds()).Draw(t, "kind")](kernelstest.NewSource(t))
		if n, err := kernelstest.NodeOf(s.Op, s.In); err == nil {
			return []*fuse.Cluster{fuse.Single(n)}
		}
		return nil
	}
	op, in := drawVast(t)
	n := &graph.Node{Op: op}
	for _, m := range in {
		n.In = append(n.In, &graph.Value{Meta: m})
	}
	out, err := op.Infer(in)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range out {
		n.Out = append(n.Out, &graph.Value{Meta: m, Node: n, Out: i})
	}
	return []*fuse.Cluster{fuse.Single(n)}
}

// drawDims draws dimensions whose product is at most 2^50.
func drawDims(t *rapid.T, name string, rank int) (dims shape.Shape) {
	left := 1 << 50
	for i := range rank {
		d := rapid.SampledFrom([]int{0, 1, 1, 2, 3, 7, 63, 64, 65, 1000, 1<<16 + 1, 1<<31 - 1, 1 << 31, 1 << 33}).Draw(t, fmt.Sprint(name, i))
		d = min(d, left)
		left /= max(1, d)
		dims = append(dims, d)
	}
	return dims
}

// drawVast draws an op with inputs of any sizes, which have no memory.
func drawVast(t *rapid.T) (graph.Op, []shape.Meta) {
	rank := rapid.IntRange(1, 4).Draw(t, "rank")
	x := drawDims(t, "x", rank)
	narrow, start, stop, perm := x.Clone(), make([]int, rank), make([]int, rank), make([]int, rank)
	for i, d := range x {
		if rapid.Bool().Draw(t, "stretch") {
			narrow[i] = 1
		}
		start[i] = rapid.IntRange(0, d).Draw(t, "start")
		stop[i] = rapid.IntRange(start[i], d).Draw(t, "stop")
		perm[i] = i
	}
	perm = rapid.Permutation(perm).Draw(t, "perm")
	f := func(s shape.Shape) shape.Meta { return shape.Meta{DType: shape.Float32, Shape: s} }
	part := x.Clone()
	for i := range part {
		part[i] = stop[i] - start[i]
	}
	switch rapid.SampledFrom([]string{"add", "exp", "sum", "transpose", "slice", "slice_grad", "concat", "broadcast", "sum_to", "softmax", "matmul"}).Draw(t, "op") {
	case "add":
		return ops.Binary{Fn: "add"}, []shape.Meta{f(x), f(narrow)}
	case "exp":
		return ops.Unary{Fn: "exp"}, []shape.Meta{f(x)}
	case "sum":
		return ops.Reduce{Fn: "sum", Axes: perm[:1]}, []shape.Meta{f(x)}
	case "transpose":
		return ops.Transpose{Perm: perm}, []shape.Meta{f(x)}
	case "slice":
		return ops.Slice{Start: start, Stop: stop}, []shape.Meta{f(x)}
	case "slice_grad":
		return ops.SliceGrad{Start: start, Shape: x}, []shape.Meta{f(part)}
	case "concat":
		return ops.Concat{Axis: perm[0]}, []shape.Meta{f(x), f(x)}
	case "broadcast":
		return ops.BroadcastTo{Shape: broadcast(narrow, x)}, []shape.Meta{f(narrow)}
	case "sum_to":
		return ops.SumTo{Shape: narrow}, []shape.Meta{f(broadcast(narrow, x))}
	case "softmax":
		return ops.Softmax{}, []shape.Meta{f(x)}
	}
	k := drawDims(t, "k", 3)
	return ops.MatMul{}, []shape.Meta{f(shape.Of(k[0], k[1])), f(shape.Of(k[1], k[2]))}
}

// broadcast is x, which narrow stretches to.
func broadcast(narrow, x shape.Shape) shape.Shape {
	to := narrow.Clone()
	for i := range to {
		if to[i] == 1 {
			to[i] = x[i]
		}
	}
	return to
}

// mostArguments is the most bytes of arguments that each OpenCL device allows.
const mostArguments = 1024

// wellFormed checks a kernel's text and its arguments.
func wellFormed(c *fuse.Cluster, call Call, scratch int64) error {
	head, _, ok := strings.Cut(call.Source, "{")
	if want := "KERNEL void " + call.Name + "("; !ok || !strings.HasPrefix(head, want) {
		return fmt.Errorf("the text does not begin with %q", want)
	}
	if n := strings.Count(head, ",") + 1; n != len(call.Args)+2 {
		return fmt.Errorf("%d parameters, %d arguments", n, len(call.Args)+2)
	}
	if n := 8 * (len(call.Args) + 2); n > mostArguments {
		return fmt.Errorf("%d bytes of arguments", n)
	}
	if (call.Groups > 0) == (call.Items > 0) || call.Groups < 0 || call.Items < 0 {
		return fmt.Errorf("%d groups, %d items", call.Groups, call.Items)
	}
	if strings.Contains(call.Source, "%!") {
		return fmt.Errorf("a value was formatted wrongly")
	}
	for i, a := range call.Args {
		switch {
		case a.Role == In && (a.Index < 0 || a.Index >= len(c.In)), a.Role == Out && (a.Index < 0 || a.Index >= len(c.Out)):
			return fmt.Errorf("argument %d is value %d of the cluster", i, a.Index)
		case a.Role == Scratch && (a.Value < 0 || a.Value > scratch):
			return fmt.Errorf("argument %d is byte %d of %d of the scratch", i, a.Value, scratch)
		}
	}
	return balanced(call.Source)
}

// comment is a comment of C.
var comment = regexp.MustCompile(`(?s)/\*.*?\*/`)

// balanced checks the brackets of a text.
func balanced(text string) error {
	var open []rune
	closes := map[rune]rune{')': '(', ']': '[', '}': '{'}
	for _, r := range comment.ReplaceAllString(text, "") {
		switch r {
		case '(', '[', '{':
			open = append(open, r)
		case ')', ']', '}':
			if len(open) == 0 || open[len(open)-1] != closes[r] {
				return fmt.Errorf("%q closes nothing", r)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%q is not closed", open[len(open)-1])
	}
	return nil
}

// The expression of a position gives the offset of each element under its strides.
func FuzzPosition(f *testing.F) {
	for seed := range 50 {
		f.Add(seed)
	}
	views := rapid.Custom(drawView)
	f.Fuzz(func(t *testing.T, seed int) {
		v := views.Example(seed)
		s, st, i := v.shape, v.strides, v.element
		if s.Elems() == 0 {
			return
		}
		want, rest := 0, i
		for d := len(s) - 1; d >= 0; d-- {
			want += rest % s[d] * st[d]
			rest /= s[d]
		}
		params, c := position("p", s, st)
		if got := evaluate(t, params, c, i); got != want {
			t.Fatalf("element %d of %v with strides %v: %s with %v is %d, want %d", i, s, st, c, params, got, want)
		}
	})
}

// view is an element of a tensor with strides.
type view struct {
	shape   shape.Shape
	strides []int
	element int
}

func drawView(t *rapid.T) view {
	s := drawDims(t, "s", rapid.IntRange(0, 5).Draw(t, "rank"))
	v := view{s, s.Strides(), rapid.IntRange(0, max(1, s.Elems())-1).Draw(t, "element")}
	for d := range s {
		if rapid.Bool().Draw(t, "own") {
			v.strides[d] = rapid.SampledFrom([]int{0, 1, 2, 3, 64, 1000, 1 << 20, 1<<31 + 1}).Draw(t, "stride")
		}
	}
	return v
}

// evaluate computes a sum of terms like i / a % b * c, of parameters.
func evaluate(t *testing.T, params []param, c string, i int) (sum int) {
	values := map[string]int{"i": i, "0": 0}
	for _, p := range params {
		values[strings.TrimPrefix(p.c, "i64 ")] = int(p.arg.Value)
	}
	for _, term := range strings.Split(c, " + ") {
		words := strings.Fields(term)
		v := values[words[0]]
		for k := 1; k+1 < len(words); k += 2 {
			by, ok := values[words[k+1]]
			if !ok {
				t.Fatalf("%s: %s is no parameter", c, words[k+1])
			}
			switch words[k] {
			case "/":
				v /= by
			case "%":
				v %= by
			case "*":
				v *= by
			}
		}
		sum += v
	}
	return sum
}
