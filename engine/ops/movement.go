package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// movementOps are the rows of the op table that are in this file.
var movementOps = []graph.Op{Reshape{}, Transpose{}, Slice{}, SliceGrad{}, Concat{}}

// Reshape gives the same elements other dimensions. It never moves bytes: its
// output is its input's memory.
type Reshape struct{ Shape shape.Shape }

// Kind is "reshape".
func (o Reshape) Kind() string { return "reshape" }

// Infer checks the number of elements.
func (o Reshape) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if err := o.Shape.Validate(); err != nil {
		return nil, err
	}
	if in[0].Elems() != o.Shape.Elems() {
		return nil, fmt.Errorf("cannot reshape %v (%d elements) to %v (%d)", in[0], in[0].Elems(), o.Shape, o.Shape.Elems())
	}
	return one(shape.Meta{DType: in[0].DType, Shape: o.Shape.Clone()}), nil
}

// Grad reshapes back.
func (o Reshape) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{ReshapeTo(b, dy[0], n.In[0].Meta.Shape...)}
}

// Cost is next to nothing.
func (o Reshape) Cost(_, _ []shape.Meta) graph.Cost { return graph.Cost{Flops: 1} }

// Alias is the input.
func (o Reshape) Alias() []int { return []int{0} }

// Repeats tells that the numbers are the input's.
func (o Reshape) Repeats() {}

// Transpose reorders dimensions: dimension i of the output is dimension
// Perm[i] of the input.
type Transpose struct{ Perm []int }

// Kind is "transpose".
func (o Transpose) Kind() string { return "transpose" }

// Infer checks that Perm names each dimension once.
func (o Transpose) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0].Shape
	out, seen := make(shape.Shape, len(x)), make([]bool, len(x))
	if len(o.Perm) != len(x) {
		return nil, fmt.Errorf("permutation %v does not fit %v", o.Perm, x)
	}
	for i, p := range o.Perm {
		if p < 0 || p >= len(x) || seen[p] {
			return nil, fmt.Errorf("%v is not a permutation of the %d dimensions of %v", o.Perm, len(x), x)
		}
		seen[p], out[i] = true, x[p]
	}
	return one(shape.Meta{DType: in[0].DType, Shape: out}), nil
}

// Grad is the inverse permutation.
func (o Transpose) Grad(b *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	inv := make([]int, len(o.Perm))
	for i, p := range o.Perm {
		inv[p] = i
	}
	return []*graph.Value{b.One(Transpose{inv}, dy[0])}
}

// Cost counts the copying.
func (o Transpose) Cost(in, out []shape.Meta) graph.Cost { return perElem(0, 0, in, out) }

// Slice cuts [Start[i], Stop[i]) out of every axis i.
type Slice struct{ Start, Stop []int }

// Kind is "slice".
func (o Slice) Kind() string { return "slice" }

// Infer checks the bounds.
func (o Slice) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0].Shape
	if len(o.Start) != len(x) || len(o.Stop) != len(x) {
		return nil, fmt.Errorf("slice %v:%v does not name every axis of %v", o.Start, o.Stop, x)
	}
	out := make(shape.Shape, len(x))
	for i := range x {
		if o.Start[i] < 0 || o.Stop[i] < o.Start[i] || o.Stop[i] > x[i] {
			return nil, fmt.Errorf("slice %d:%d of axis %d is outside %v", o.Start[i], o.Stop[i], i, x)
		}
		out[i] = o.Stop[i] - o.Start[i]
	}
	return one(shape.Meta{DType: in[0].DType, Shape: out}), nil
}

// Grad places dy in zeros.
func (o Slice) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{b.One(SliceGrad{o.Start, n.In[0].Meta.Shape}, dy[0])}
}

// Cost counts the elements that are copied, not the rest of the input.
func (o Slice) Cost(_, out []shape.Meta) graph.Cost { return perElem(0, 0, out, out) }

// SliceGrad is dx of Shape: zeros, with dy from Start on.
type SliceGrad struct {
	Start []int
	Shape shape.Shape
}

// Kind is "slice_grad".
func (o SliceGrad) Kind() string { return "slice_grad" }

// Infer checks that dy fits into Shape.
func (o SliceGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 1); err != nil {
		return nil, err
	}
	d := in[0].Shape
	if len(o.Start) != len(d) || len(o.Shape) != len(d) {
		return nil, fmt.Errorf("dy %v at %v does not fit into %v", d, o.Start, o.Shape)
	}
	for i := range d {
		if o.Start[i] < 0 || o.Start[i]+d[i] > o.Shape[i] {
			return nil, fmt.Errorf("dy %v at %v does not fit into %v", d, o.Start, o.Shape)
		}
	}
	return one(f32(o.Shape.Clone())), nil
}

// Grad fails: see noSecond.
func (o SliceGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost counts the copying.
func (o SliceGrad) Cost(in, out []shape.Meta) graph.Cost { return perElem(0, 0, in, out) }

// Concat joins its inputs (at least one) along Axis.
type Concat struct{ Axis int }

// Kind is "concat".
func (o Concat) Kind() string { return "concat" }

// Infer checks that all other dimensions agree.
func (o Concat) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if len(in) == 0 {
		return nil, fmt.Errorf("takes at least 1 input, got none")
	}
	out := shape.Meta{DType: in[0].DType, Shape: in[0].Shape.Clone()}
	if o.Axis < 0 || o.Axis >= out.Shape.Rank() {
		return nil, fmt.Errorf("axis %d is not one of %v", o.Axis, out.Shape)
	}
	for i, m := range in[1:] {
		want := in[0].Shape.Clone()
		if m.Shape.Rank() == want.Rank() {
			want[o.Axis] = m.Shape[o.Axis]
		}
		if m.DType != out.DType || !m.Shape.Equal(want) {
			return nil, fmt.Errorf("input %d is %v, input 0 %v: all but axis %d must agree", i+1, m, in[0], o.Axis)
		}
		out.Shape[o.Axis] += m.Shape[o.Axis]
	}
	return one(out), nil
}

// Grad cuts dy up again.
func (o Concat) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	dx, at := make([]*graph.Value, len(n.In)), 0
	for i, x := range n.In {
		start, stop := make([]int, x.Meta.Shape.Rank()), n.Out[0].Meta.Shape.Clone()
		start[o.Axis], stop[o.Axis] = at, at+x.Meta.Shape[o.Axis]
		at = stop[o.Axis]
		dx[i] = SliceOf(b, dy[0], start, stop)
	}
	return dx
}

// Cost counts the copying.
func (o Concat) Cost(in, out []shape.Meta) graph.Cost { return perElem(0, 0, in, out) }

// ReshapeTo gives x other dimensions. One of them may be -1: it follows from the
// others. It is x itself if the dimensions agree.
func ReshapeTo(b *graph.Builder, x *graph.Value, dims ...int) *graph.Value {
	s, rest, free := shape.Of(dims...).Clone(), 1, -1
	for i, d := range s {
		switch {
		case d >= 0:
			rest *= d
		case d == -1 && free < 0:
			free = i
		default:
			b.Fail(fmt.Errorf("%w: reshape: %v has more than one free dimension", graph.ErrShape, s))
			return x
		}
	}
	if free >= 0 {
		if rest == 0 || x.Meta.Elems()%rest != 0 {
			b.Fail(fmt.Errorf("%w: reshape: %v (%d elements) does not divide into %v", graph.ErrShape, x.Meta, x.Meta.Elems(), s))
			return x
		}
		s[free] = x.Meta.Elems() / rest
	}
	if x.Meta.Shape.Equal(s) {
		return x
	}
	return b.One(Reshape{s}, x)
}

// TransposeTo reorders dimensions: dimension i of the result is dimension perm[i]
// of x.
func TransposeTo(b *graph.Builder, x *graph.Value, perm ...int) *graph.Value {
	return b.One(Transpose{perm}, x)
}

// SliceOf cuts [start[i], stop[i]) out of every axis.
func SliceOf(b *graph.Builder, x *graph.Value, start, stop []int) *graph.Value {
	return b.One(Slice{start, stop}, x)
}

// ConcatOf joins xs along an axis, which may be negative.
func ConcatOf(b *graph.Builder, axis int, xs ...*graph.Value) *graph.Value {
	if axis < 0 && len(xs) > 0 {
		axis += xs[0].Meta.Shape.Rank()
	}
	return b.One(Concat{axis}, xs...)
}
