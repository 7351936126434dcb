package ops

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// reduceOps are the rows of the op table that are in this file.
var reduceOps = []graph.Op{
	Reduce{Fn: "sum"}, Reduce{Fn: "mean"}, Reduce{Fn: "max"}, ReduceMaxGrad{},
	SumTo{}, BroadcastTo{}, SumSquares{},
}

// Reduce takes the sum, mean or max (Fn) over axes, which are counted from the
// front and ascending; none means all. With Keep the axes stay, of size 1.
type Reduce struct {
	Fn   string
	Axes []int
	Keep bool
}

// Kind is "reduce_" + Fn.
func (o Reduce) Kind() string { return "reduce_" + o.Fn }

// Infer removes the axes.
func (o Reduce) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if o.Fn != "sum" && o.Fn != "mean" && o.Fn != "max" {
		return nil, fmt.Errorf("no reduction %q: use sum, mean or max", o.Fn)
	}
	if err := floats(in, 1); err != nil {
		return nil, err
	}
	x := in[0].Shape
	if err := checkAxes(o.Axes, x); err != nil {
		return nil, err
	}
	if o.Fn != "sum" && x.Elems() == 0 {
		return nil, fmt.Errorf("the %s of no elements (%v) is not defined", o.Fn, x)
	}
	if o.Keep {
		return one(f32(kept(x, o.Axes))), nil
	}
	out := shape.Shape{}
	for i, d := range x {
		if !reduced(o.Axes, i) {
			out = append(out, d)
		}
	}
	return one(f32(out)), nil
}

// Grad stretches dy over the reduced axes. For a max the first of equal elements
// gets it.
func (o Reduce) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	x := n.In[0]
	keep := kept(x.Meta.Shape, o.Axes)
	d := ReshapeTo(b, dy[0], keep...)
	switch o.Fn {
	case "max":
		y := ReshapeTo(b, n.Out[0], keep...)
		return []*graph.Value{b.One(ReduceMaxGrad{o.Axes}, x, y, d)}
	case "mean":
		d = ScaleBy(b, d, float64(keep.Elems())/float64(x.Meta.Elems()))
	}
	return []*graph.Value{Broadcast(b, d, x.Meta.Shape)}
}

// Cost is one operation per element read.
func (o Reduce) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, in[0].Elems(), in, out) }

// ReduceMaxGrad is dx from (x, y, dy), y and dy with their reduced axes kept:
// the first element of x that equals y gets dy, all others 0.
type ReduceMaxGrad struct{ Axes []int }

// Kind is "reduce_max_grad".
func (o ReduceMaxGrad) Kind() string { return "reduce_max_grad" }

// Infer checks y and dy against x.
func (o ReduceMaxGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 3); err != nil {
		return nil, err
	}
	x := in[0].Shape
	if err := checkAxes(o.Axes, x); err != nil {
		return nil, err
	}
	keep := f32(kept(x, o.Axes))
	if err := expect("y", in[1], keep); err != nil {
		return nil, err
	}
	return one(in[0]), expect("dy", in[2], keep)
}

// Grad fails: see noSecond.
func (o ReduceMaxGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is a comparison per element.
func (o ReduceMaxGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(1, in[0].Elems(), in, out)
}

// SumTo sums over the dimensions that broadcasting from Shape stretched, or
// added in front.
type SumTo struct{ Shape shape.Shape }

// Kind is "sum_to".
func (o SumTo) Kind() string { return "sum_to" }

// Infer checks that Shape broadcasts to the input.
func (o SumTo) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 1); err != nil {
		return nil, err
	}
	return one(f32(o.Shape.Clone())), stretches(o.Shape, in[0].Shape)
}

// Grad broadcasts.
func (o SumTo) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{Broadcast(b, dy[0], n.In[0].Meta.Shape)}
}

// Cost is an addition per element read.
func (o SumTo) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, in[0].Elems(), in, out) }

// BroadcastTo stretches to Shape under NumPy's rule.
type BroadcastTo struct{ Shape shape.Shape }

// Kind is "broadcast_to".
func (o BroadcastTo) Kind() string { return "broadcast_to" }

// Infer checks that the input broadcasts to Shape.
func (o BroadcastTo) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return one(shape.Meta{DType: in[0].DType, Shape: o.Shape.Clone()}), stretches(in[0].Shape, o.Shape)
}

// Grad sums.
func (o BroadcastTo) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{SumToShape(b, dy[0], n.In[0].Meta.Shape)}
}

// Cost counts the copying.
func (o BroadcastTo) Cost(in, out []shape.Meta) graph.Cost { return perElem(0, 0, in, out) }

// Repeats tells that the numbers are the input's.
func (o BroadcastTo) Repeats() {}

// SumSquares is the sum of squares of all elements, f32[].
type SumSquares struct{}

// Kind is "sum_squares".
func (o SumSquares) Kind() string { return "sum_squares" }

// Infer is a scalar.
func (o SumSquares) Infer(in []shape.Meta) ([]shape.Meta, error) {
	return one(shape.F32()), floats(in, 1)
}

// Grad is 2x dy.
func (o SumSquares) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{Mul(b, n.In[0], ScaleBy(b, dy[0], 2))}
}

// Cost is a multiply-add per element.
func (o SumSquares) Cost(in, out []shape.Meta) graph.Cost { return perElem(2, in[0].Elems(), in, out) }

// checkAxes wants axes of s, ascending.
func checkAxes(axes []int, s shape.Shape) error {
	for i, a := range axes {
		if a < 0 || a >= len(s) || i > 0 && axes[i-1] >= a {
			return fmt.Errorf("axes %v are not ascending axes of %v", axes, s)
		}
	}
	return nil
}

// reduced reports whether axis is among axes; none means all.
func reduced(axes []int, axis int) bool { return len(axes) == 0 || slices.Contains(axes, axis) }

// kept is s with the reduced axes of size 1.
func kept(s shape.Shape, axes []int) shape.Shape {
	out := s.Clone()
	for i := range out {
		if reduced(axes, i) {
			out[i] = 1
		}
	}
	return out
}

// stretches checks that broadcasting from gives exactly to.
func stretches(from, to shape.Shape) error {
	if s, err := shape.Broadcast(from, to); err != nil || !s.Equal(to) {
		return fmt.Errorf("%v does not broadcast to %v", from, to)
	}
	return nil
}

// reduceOf normalises axes, which may be negative and in any order.
func reduceOf(b *graph.Builder, fn string, x *graph.Value, keep bool, axes []int) *graph.Value {
	axes = slices.Clone(axes)
	for i, a := range axes {
		if a < 0 {
			axes[i] = a + x.Meta.Shape.Rank()
		}
	}
	slices.Sort(axes)
	return b.One(Reduce{fn, axes, keep}, x)
}

// Sum sums over axes, which may be negative; all of them if none is given.
func Sum(b *graph.Builder, x *graph.Value, keep bool, axes ...int) *graph.Value {
	return reduceOf(b, "sum", x, keep, axes)
}

// Mean averages over axes, see [Sum].
func Mean(b *graph.Builder, x *graph.Value, keep bool, axes ...int) *graph.Value {
	return reduceOf(b, "mean", x, keep, axes)
}

// Max is the largest element over axes, see [Sum].
func Max(b *graph.Builder, x *graph.Value, keep bool, axes ...int) *graph.Value {
	return reduceOf(b, "max", x, keep, axes)
}

// SumToShape sums x over the dimensions that broadcasting from s stretched. It is x
// itself if the shapes agree.
func SumToShape(b *graph.Builder, x *graph.Value, s shape.Shape) *graph.Value {
	if x.Meta.Shape.Equal(s) {
		return x
	}
	return b.One(SumTo{s}, x)
}

// Broadcast stretches x to s. It is x itself if the shapes agree.
func Broadcast(b *graph.Builder, x *graph.Value, s shape.Shape) *graph.Value {
	if x.Meta.Shape.Equal(s) {
		return x
	}
	return b.One(BroadcastTo{s}, x)
}
