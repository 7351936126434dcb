package eager

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// maxOutputs is the most outputs that any op has.
const maxOutputs = 8

// Function is an op made of others: they are compiled together, once for each metadata
// of the arguments, and run in one launch with the bits of single calls. For gradients,
// a [Tape] runs its ops again, one by one.
type Function struct {
	name  string
	build func(b *graph.Builder, in []*graph.Value) []*graph.Value
}

// Compile makes a function of the ops that build appends for its inputs; build returns
// the results. It is called again for new metadata, from any goroutine, and must append
// the same each time.
func Compile(name string, build func(b *graph.Builder, in []*graph.Value) []*graph.Value) *Function {
	return &Function{name, build}
}

// Kind is the function's name.
func (f *Function) Kind() string { return f.name }

// Infer is the metadata of the results.
func (f *Function) Infer(in []shape.Meta) ([]shape.Meta, error) {
	g, err := f.graph(in)
	if err != nil {
		return nil, err
	}
	return graph.Metas(g.Outputs), nil
}

// Grad appends the ops once more, and their gradients.
func (f *Function) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	in := make([]*graph.Value, len(n.In)) // on which nothing else depends, not even another input
	for i, v := range n.In {
		in[i] = b.One(ops.Reshape{Shape: v.Meta.Shape}, v)
	}
	outs := f.build(b, in)
	parts := make([][]*graph.Value, len(in))
	for k, d := range dy {
		if d == nil {
			continue
		}
		of := b.Gradients(outs[k], d, in, ops.AddOp)
		for i, v := range in {
			parts[i] = append(parts[i], of[v]...)
		}
	}
	dx := make([]*graph.Value, len(in))
	for i, p := range parts {
		dx[i] = sum(b, p)
	}
	return dx
}

// Cost is that of its ops.
func (f *Function) Cost(in, _ []shape.Meta) graph.Cost {
	g, err := f.graph(in)
	if err != nil {
		return graph.Cost{} // Infer tells
	}
	return g.Cost()
}

// graph builds the function for inputs.
func (f *Function) graph(in []shape.Meta) (*graph.Graph, error) {
	b := graph.NewBuilder(f.name, 1)
	outs := f.build(b, inputs(b, in))
	if len(outs) == 0 || len(outs) > maxOutputs {
		b.Fail(fmt.Errorf("%w: a function has %d results: return 1 to %d", graph.ErrShape, len(outs), maxOutputs))
	}
	for i, v := range outs {
		b.Output(fmt.Sprintf("out%d", i), v)
	}
	return b.Graph()
}

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
