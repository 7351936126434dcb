package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// selectOps are the rows of the op table that are in this file.
var selectOps = []graph.Op{Compare{"less"}, Compare{"equal"}, Select{}, SelectGrad{}}

// Compare is 1 where a is less than b, or equal to it, and 0 elsewhere: from (a, b) of
// one shape. Fn is less or equal and is the op's kind. A NaN is neither.
type Compare struct{ Fn string }

// Kind is Fn.
func (o Compare) Kind() string { return o.Fn }

// Infer wants two equal shapes.
func (o Compare) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if o.Fn != "less" && o.Fn != "equal" {
		return nil, fmt.Errorf("no comparison %q: use less or equal", o.Fn)
	}
	return sameShapes(in)
}

// Grad is none: the result is flat.
func (o Compare) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is one operation per element.
func (o Compare) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, out[0].Elems(), in, out) }

// Alias lets the result take over a's memory.
func (o Compare) Alias() []int { return []int{0} }

// Select is a where p is not 0, and b elsewhere: from (p, a, b) of one shape. A NaN in p
// counts as not 0. Nothing of the number that is not chosen gets into the result, NaN
// and Inf included.
type Select struct{}

// Kind is "select".
func (o Select) Kind() string { return "select" }

// Infer wants three equal shapes.
func (o Select) Infer(in []shape.Meta) ([]shape.Meta, error) { return SameMeta(in, 3) }

// Grad gives dy to the number that was chosen, and 0 to the other one. Nothing flows
// to p.
func (o Select) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	p, d := n.In[0], dy[0]
	return []*graph.Value{nil, b.One(SelectGrad{}, p, d), b.One(SelectGrad{Else: true}, p, d)}
}

// Cost is one operation per element.
func (o Select) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, out[0].Elems(), in, out) }

// Alias lets the result take over a's memory.
func (o Select) Alias() []int { return []int{1} }

// Chooses reads each number from one of the two.
func (o Select) Chooses() []graph.Choice {
	return []graph.Choice{graph.Always, graph.WhereNot0, graph.Where0}
}

// SelectGrad is dx from (p, dy) of one shape: dy where p is not 0, and 0 elsewhere; with
// Else the other way round.
type SelectGrad struct{ Else bool }

// Kind is "select_grad".
func (o SelectGrad) Kind() string { return "select_grad" }

// Infer wants two equal shapes.
func (o SelectGrad) Infer(in []shape.Meta) ([]shape.Meta, error) { return sameShapes(in) }

// Grad fails: see noSecond.
func (o SelectGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is one operation per element.
func (o SelectGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(1, out[0].Elems(), in, out)
}

// Alias lets dx take over dy's memory.
func (o SelectGrad) Alias() []int { return []int{1} }

// Chooses reads dy where it is not zeroed.
func (o SelectGrad) Chooses() []graph.Choice {
	if o.Else {
		return []graph.Choice{graph.Always, graph.Where0}
	}
	return []graph.Choice{graph.Always, graph.WhereNot0}
}

// Less is 1 where x < y, and 0 elsewhere, with NumPy's broadcasting.
func Less(b *graph.Builder, x, y *graph.Value) *graph.Value { return comparison(b, "less", x, y) }

// Equal is 1 where x = y, and 0 elsewhere, with NumPy's broadcasting.
func Equal(b *graph.Builder, x, y *graph.Value) *graph.Value { return comparison(b, "equal", x, y) }

// SelectOf is x where p is not 0, and y elsewhere, with NumPy's broadcasting.
func SelectOf(b *graph.Builder, p, x, y *graph.Value) *graph.Value {
	in := stretched(b, "select", p, x, y)
	return b.One(Select{}, in...)
}

func comparison(b *graph.Builder, fn string, x, y *graph.Value) *graph.Value {
	in := stretched(b, fn, x, y)
	return b.One(Compare{fn}, in...)
}

// stretched is xs, broadcast to one shape.
func stretched(b *graph.Builder, what string, xs ...*graph.Value) []*graph.Value {
	to := xs[0].Meta.Shape
	for _, x := range xs[1:] {
		s, err := shape.Broadcast(to, x.Meta.Shape)
		if err != nil {
			b.Fail(fmt.Errorf("%w: %s: %w", graph.ErrShape, what, err))
			return xs
		}
		to = s
	}
	out := make([]*graph.Value, len(xs))
	for i, x := range xs {
		out[i] = Broadcast(b, x, to)
	}
	return out
}
