package ref

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Array is a tensor: F holds the elements of a Float32 tensor in float64, I
// those of an Int32 tensor; the other is nil. Row-major.
type Array struct {
	Meta shape.Meta
	F    []float64
	I    []int32
}

// New is an array of zeros.
func New(m shape.Meta) Array {
	if m.DType == shape.Int32 {
		return Array{Meta: m, I: make([]int32, m.Elems())}
	}
	return Array{Meta: m, F: make([]float64, m.Elems())}
}

// Floats is a Float32 array with these elements.
func Floats(f []float64, dims ...int) Array { return Array{Meta: shape.F32(dims...), F: f} }

// Ints is an Int32 array with these elements.
func Ints(i []int32, dims ...int) Array { return Array{Meta: shape.I32(dims...), I: i} }

// check reports an array whose elements do not fit its metadata.
func (a Array) check() error {
	f, i := a.Meta.Elems(), 0
	if a.Meta.DType == shape.Int32 {
		f, i = 0, f
	}
	if len(a.F) != f || len(a.I) != i {
		return fmt.Errorf("%v has %d floats and %d integers, expected %d and %d", a.Meta, len(a.F), len(a.I), f, i)
	}
	return nil
}

// kernel fills out, which is zeros of the right metadata, from in.
type kernel func(op graph.Op, in, out []Array) error

// kernels by the kind of op.
var kernels = merge(elementwise, products, convolutions, pools, reductions, movements,
	softmaxes, losses, norms, gathers, randoms, updates)

func merge(families ...map[string]kernel) map[string]kernel {
	all := map[string]kernel{}
	for _, family := range families {
		for kind, k := range family {
			all[kind] = k
		}
	}
	return all
}

// of makes a kernel of a function for one type of op that cannot fail.
func of[T graph.Op](f func(o T, in, out []Array)) kernel {
	return func(op graph.Op, in, out []Array) error {
		f(op.(T), in, out)
		return nil
	}
}

// Kinds lists, in alphabetical order, the ops that Run knows.
func Kinds() []string {
	var kinds []string
	for k := range kernels {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

// Run computes one op. It fails where the op's metadata rule does, and where
// the op may fail at run time: an index out of range, a value not finite.
func Run(op graph.Op, in []Array) ([]Array, error) {
	metas := make([]shape.Meta, len(in))
	for i, a := range in {
		if err := a.check(); err != nil {
			return nil, fmt.Errorf("%s: input %d: %w", op.Kind(), i, err)
		}
		metas[i] = a.Meta
	}
	outs, err := op.Infer(metas)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Kind(), err)
	}
	k := kernels[op.Kind()]
	if k == nil {
		return nil, fmt.Errorf("no reference kernel for %s: add one to package ref", op.Kind())
	}
	out := make([]Array, len(outs))
	for i, m := range outs {
		out[i] = New(m)
	}
	if err := k(op, in, out); err != nil {
		return nil, fmt.Errorf("%s: %w", op.Kind(), err)
	}
	return out, nil
}

// Eval computes all nodes of a graph in order and returns every value met,
// what was fed included. Inputs and variables that are read must be in feed. A
// sum over microbatches may be; if not it is its part, as in a step of one
// microbatch. Nothing is assigned: an assigned variable's new contents are
// those of the value it takes.
func Eval(g *graph.Graph, feed map[*graph.Value]Array) (map[*graph.Value]Array, error) {
	vals := map[*graph.Value]Array{}
	for v, a := range feed {
		if !a.Meta.Equal(v.Meta) {
			return nil, fmt.Errorf("%v is fed %v", v, a.Meta)
		}
		vals[v] = a
	}
	parts := map[*graph.Value]*graph.Value{}
	for _, a := range g.Accums {
		parts[a.Sum] = a.Part
	}
	for _, n := range g.Nodes {
		in := make([]Array, len(n.In))
		for i, v := range n.In {
			a, ok := lookup(v, vals, parts)
			if !ok {
				return nil, fmt.Errorf("%v reads %v, which was not fed", n, v)
			}
			in[i] = a
		}
		out, err := Run(n.Op, in)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", n, err)
		}
		for i, v := range n.Out {
			vals[v] = out[i]
		}
	}
	for sum := range parts {
		lookup(sum, vals, parts)
	}
	return vals, nil
}

// lookup finds a value, a sum that was not fed by its part.
func lookup(v *graph.Value, vals map[*graph.Value]Array, parts map[*graph.Value]*graph.Value) (Array, bool) {
	a, ok := vals[v]
	if part := parts[v]; !ok && part != nil {
		if a, ok = vals[part]; ok {
			vals[v] = a
		}
	}
	return a, ok
}

// strides are the steps of x's elements as it is stretched to out by
// broadcasting: 0 where it stretches.
func strides(x, out shape.Shape) []int {
	st, own := make([]int, len(out)), x.Strides()
	for i := range x {
		if x[i] != 1 {
			st[len(out)-len(x)+i] = own[i]
		}
	}
	return st
}

// each calls f for every element of s in order, with its number and index.
func each(s shape.Shape, f func(i int, ix []int)) {
	ix := make([]int, len(s))
	for i := range s.Elems() {
		rest := i
		for k := len(s) - 1; k >= 0; k-- {
			ix[k] = rest % s[k]
			rest /= s[k]
		}
		f(i, ix)
	}
}

// at is where an index lies under strides.
func at(ix, st []int) int {
	p := 0
	for k, i := range ix {
		p += i * st[k]
	}
	return p
}
