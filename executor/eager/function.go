package eager

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

// maxOutputs is the most outputs of an op that is not made of others.
const maxOutputs = 8

// Function is an op made of others: they are compiled together, once for each metadata
// of the arguments, and run in one launch with the bits of single calls. In a graph, and
// in another function, its ops stand in its place. For gradients, a [Tape] runs its ops
// again, one by one; [Function.Gradients] compiles them too.
type Function struct {
	name  string
	build func(b *graph.Builder, in []*graph.Value) []*graph.Value
}

// Compile makes a function of the ops that build appends for its inputs; build returns
// the results, which may be the inputs themselves. It is called again for new metadata,
// from any goroutine, and must append the same each time. A nil build fails the calls.
func Compile(name string, build func(b *graph.Builder, in []*graph.Value) []*graph.Value) *Function {
	return &Function{name, build}
}

// Gradients makes a function whose results are those of f and then the gradients of the
// first one, summed over its elements, by the arguments wrt, counted from 0.
func (f *Function) Gradients(wrt ...int) *Function {
	return Compile(f.Kind()+" and gradients", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		outs := b.Apply(f, in...)
		if b.Err() != nil {
			return nil
		}
		of := make([]*graph.Value, len(wrt))
		for i, k := range wrt {
			if k < 0 || k >= len(in) {
				b.Fail(fmt.Errorf("%w: there is no argument %d to take the gradient with respect to: %s has %d arguments", ErrNoGradient, k, f.Kind(), len(in)))
				return nil
			}
			of[i] = in[k]
		}
		parts := b.Gradients(outs[0], b.One(ops.Fill{Meta: outs[0].Meta, Value: 1}), of, ops.AddOp)
		for i, v := range of {
			if len(parts[v]) == 0 {
				b.Fail(fmt.Errorf("%w: result 0 of %s does not depend on argument %d (%v), or an op between them has no gradient", ErrNoGradient, f.Kind(), wrt[i], v.Meta))
				return nil
			}
			outs = append(outs, sum(b, parts[v]))
		}
		return outs
	})
}

// Kind is the function's name.
func (f *Function) Kind() string {
	if f == nil {
		return "function"
	}
	return f.name
}

// Expand appends the function's ops: see [graph.Composite]. A result that is an argument, or
// another result, is copied, since each is a tensor of its own.
func (f *Function) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value {
	switch {
	case f == nil:
		b.Fail(errs.NotOpened("Function", "Compile"))
		return nil
	case f.build == nil:
		b.Fail(fmt.Errorf("%s: %w", f.name, errs.CheckFunction("build", true)))
		return nil
	}
	outs := slices.Clone(f.build(b, in))
	for i, v := range outs {
		if v != nil && b.Err() == nil && (slices.Contains(in, v) || slices.Contains(outs[:i], v)) {
			outs[i] = b.One(ops.Reshape{Shape: v.Meta.Shape}, v)
		}
	}
	return outs
}

// Infer is the metadata of the results.
func (f *Function) Infer(in []shape.Meta) ([]shape.Meta, error) {
	g, err := f.graph(in)
	if err != nil {
		return nil, err
	}
	return graph.Metas(g.Outputs), nil
}

// Grad is never called: a builder differentiates the function's ops.
func (f *Function) Grad(*graph.Builder, *graph.Node, []*graph.Value) []*graph.Value {
	panic("BUG: a function was not expanded")
}

// Cost adds up its ops.
func (f *Function) Cost(in, _ []shape.Meta) graph.Cost {
	g, err := f.graph(in)
	if err != nil {
		return graph.Cost{} // Infer tells
	}
	return g.Cost()
}

// graph builds the function for inputs.
func (f *Function) graph(in []shape.Meta) (*graph.Graph, error) { return graph.Expanded(f, in, nil) }

// inputs declares inputs of a graph.
func inputs(b *graph.Builder, metas []shape.Meta) []*graph.Value {
	in := make([]*graph.Value, len(metas))
	for i, m := range metas {
		in[i] = b.Input(fmt.Sprintf("in%d", i), m)
	}
	return in
}

// sum adds the parts of a gradient in their order.
func sum(b *graph.Builder, parts []*graph.Value) *graph.Value {
	if len(parts) == 0 {
		return nil
	}
	total := parts[0]
	for _, p := range parts[1:] {
		total = b.One(ops.AddOp, total, p)
	}
	return total
}

// frozen is an op that a cache finds by its address.
type frozen struct{ graph.Op }

// Freeze makes an op of another one that is found by its address: its attributes are read
// once, and no more at each call. It is for ops with lists among their attributes, such as
// ops.Transpose, and for those of [graph.Compose], where the time of a call matters. Freeze an
// op once and keep the result: each one is compiled by itself.
func Freeze(op graph.Op) graph.Op {
	if p, ok := op.(placed); ok {
		return placed{&frozen{p.Op}, p.on}
	}
	return &frozen{op}
}

// Expand appends the op itself: see [graph.Composite].
func (f *frozen) Expand(b *graph.Builder, in []*graph.Value) []*graph.Value {
	return b.Apply(f.Op, in...)
}

// byAddress reports whether two ops of op's type are the same only if they are at the same
// address.
func byAddress(op graph.Op) bool {
	switch op.(type) {
	case *Function, *frozen:
		return true
	}
	return false
}
