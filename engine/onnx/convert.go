package onnx

import (
	"fmt"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// The batches of the two graphs from which [Append] tells dimensions that count samples.
const (
	Few  = 2
	More = Few + 1
)

// Source is what a graph reads from outside.
type Source struct {
	// Inputs are the values of the builder that are the graph's inputs, by the names of these.
	// Whole numbers are i32.
	Inputs map[string]string
	// Samples is an input of the model whose first dimension counts samples.
	Samples string
	// Read fills in the numbers of a variable.
	Read func(v *graph.Value, dst []byte) error
}

// Append appends the nodes that the first output of a graph needs, and returns that output.
// few and more are the same graph for Few and More samples, so that the nodes hold for any
// number of them. It fails with [ErrOp] where an op has no form in ONNX, and names the layers
// of all such ops.
func Append(b *Builder, few, more *graph.Graph, s Source) (output string, dims []Dim, err error) {
	x := &converting{b: b, source: s, names: map[*graph.Value]string{}, wide: map[*graph.Value]*graph.Value{}, masks: map[int]string{}}
	if err := x.pair(few, more); err != nil {
		return "", nil, err
	}
	out := few.Outputs[0]
	needed := needs(out)
	if err := refusals(few, needed); err != nil {
		return "", nil, err
	}
	for i, n := range few.Nodes {
		if !needed[n] {
			continue
		}
		if err := x.node(n, more.Nodes[i]); err != nil {
			return "", nil, err
		}
	}
	if output, err = x.value(out); err != nil {
		return "", nil, err
	}
	for i, d := range out.Meta.Shape {
		l, err := linear(d, x.wide[out].Meta.Shape[i])
		switch {
		case err != nil:
			return "", nil, err
		case l.samples == 1:
			dims = append(dims, Dim{Name: Batch})
		case l.samples > 1:
			dims = append(dims, Dim{Name: fmt.Sprintf("%d*%s", l.samples, Batch)})
		default:
			dims = append(dims, Dim{Size: l.fixed})
		}
	}
	return output, dims, nil
}

// needs are the nodes from which a value is computed.
func needs(v *graph.Value) map[*graph.Node]bool {
	needed := map[*graph.Node]bool{}
	for open := []*graph.Value{v}; len(open) > 0; {
		v, open = open[len(open)-1], open[:len(open)-1]
		if v.Node != nil && !needed[v.Node] {
			needed[v.Node] = true
			open = append(open, v.Node.In...)
		}
	}
	return needed
}

// refusals is an error that names all ops without a form, each with its layer.
func refusals(g *graph.Graph, needed map[*graph.Node]bool) error {
	var list []string
	seen := map[string]bool{}
	for _, n := range g.Nodes {
		kind := n.Op.Kind()
		if f, known := forms[kind]; !needed[n] || known && !graph.BringsKernel(n.Op) && f.takes(n.Op) {
			continue
		}
		text := "the op " + kind
		if graph.BringsKernel(n.Op) {
			text += " that the program registered"
		}
		if n.Layer != nil {
			text = n.Layer.String() + " uses " + text
			if at := n.Layer.Pos.String(); at != "" {
				text = at + ": " + text
			}
		}
		if !seen[text] {
			seen[text] = true
			list = append(list, text)
		}
	}
	if list == nil {
		return nil
	}
	return fmt.Errorf("%w: %s; write the weights alone, as safetensors, or use other layers", ErrOp, strings.Join(list, "; "))
}

// converting is a conversion of a graph under way.
type converting struct {
	b      *Builder
	source Source
	names  map[*graph.Value]string       // in the model
	wide   map[*graph.Value]*graph.Value // the same value of the graph for More samples
	batch  string                        // the number of samples, i64[1]; "" until it is needed
	masks  map[int]string                // of attention, by positions
}

// pair finds the same values in both graphs.
func (x *converting) pair(few, more *graph.Graph) error {
	if len(few.Nodes) != len(more.Nodes) {
		return fmt.Errorf("BUG: the graph has %d nodes for %d samples and %d for %d", len(few.Nodes), Few, len(more.Nodes), More)
	}
	match := func(a, b []*graph.Value) {
		for i := range a {
			x.wide[a[i]] = b[i]
		}
	}
	match(few.Inputs, more.Inputs)
	match(few.Vars, more.Vars)
	for i, n := range few.Nodes {
		if m := more.Nodes[i]; n.Op.Kind() != m.Op.Kind() || len(n.Out) != len(m.Out) {
			return fmt.Errorf("BUG: node %d is %v for %d samples and %v for %d", i, n, Few, m, More)
		}
		match(n.Out, more.Nodes[i].Out)
	}
	return nil
}

// node appends the form of a node.
func (x *converting) node(n, wide *graph.Node) error {
	c := &call{b: x.b, x: x, n: n, wide: wide}
	f := forms[n.Op.Kind()]
	if !f.sized && graph.OpString(n.Op) != graph.OpString(wide.Op) {
		return fmt.Errorf("%w: %v: %s depends on the number of samples", ErrOp, n.Layer, graph.OpString(n.Op))
	}
	for _, v := range n.In {
		name, err := x.value(v)
		if err != nil {
			return err
		}
		c.in = append(c.in, name)
	}
	out := f.build(c)
	if c.err != nil {
		return fmt.Errorf("%w: %v: the op %s: %w", ErrOp, n.Layer, n.Op.Kind(), c.err)
	}
	x.names[n.Out[0]] = out
	return nil
}

// value is the name of a value, which it declares if it is a weight.
func (x *converting) value(v *graph.Value) (string, error) {
	if name, known := x.names[v]; known {
		return name, nil
	}
	switch {
	case v.Kind == graph.Input:
		name, known := x.source.Inputs[v.Name]
		if !known {
			return "", fmt.Errorf("%w: the graph reads the input %s", ErrOp, v.Name)
		}
		x.names[v] = name
	case v.Kind == graph.Variable:
		x.names[v] = x.b.Weight(v.Name, typeOf(v.Meta.DType), v.Meta.Shape, func(dst []byte) error { return x.source.Read(v, dst) })
	default:
		return "", fmt.Errorf("%w: %v: output %d of the op %s is used", ErrOp, v.Node.Layer, v.Out, v.Node.Op.Kind())
	}
	return x.names[v], nil
}

// typeOf is the type of elements in ONNX.
func typeOf(t shape.DType) Type {
	if t == shape.Int32 {
		return Int32
	}
	return Float32
}

// size is a number that may depend on the samples: fixed, or so many times the samples.
type size struct{ fixed, samples int }

// linear is the size that is few with Few samples and more with More.
func linear(few, more int) (size, error) {
	slope := more - few
	switch {
	case slope == 0:
		return size{fixed: few}, nil
	case slope > 0 && few == slope*Few:
		return size{samples: slope}, nil
	}
	return size{}, fmt.Errorf("a size is %d for %d samples and %d for %d", few, Few, more, More)
}

// sizes is a vector i64 of sizes, given for Few and for More samples.
func (c *call) sizes(few, more []int) string {
	fixed, parts, moves := make([]int64, len(few)), make([]string, len(few)), false
	for i := range few {
		l, err := linear(few[i], more[i])
		if err != nil {
			c.err = err
			return ""
		}
		fixed[i] = int64(l.fixed)
		switch {
		case l.samples == 0:
			parts[i] = c.b.Ints(fixed[i])
		case l.samples == 1:
			parts[i], moves = c.x.samples(), true
		default:
			parts[i], moves = c.b.Node("Mul", nil, c.x.samples(), c.b.Ints(int64(l.samples))), true
		}
	}
	if !moves {
		return c.b.Ints(fixed...)
	}
	return c.b.Node("Concat", []Attr{{"axis", int64(0)}}, parts...)
}

// samples is the number of samples, i64[1].
func (x *converting) samples() string {
	if x.batch == "" {
		x.batch = x.b.Node("Shape", []Attr{{"start", int64(0)}, {"end", int64(1)}}, x.source.Samples)
	}
	return x.batch
}
