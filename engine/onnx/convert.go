package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Graphs are a model's graph in several sizes, which tell the sizes that are the same in all
// from those that follow the number of samples or positions.
type Graphs struct {
	Few  *graph.Graph // for Few samples
	More *graph.Graph // for More of them
	// Longer is for Few samples, and for LongerPositions where the others are for FewPositions.
	// nil: the number of positions is fixed.
	Longer *graph.Graph
}

// The sizes of Graphs.
const (
	Few  = 2
	More = Few + 1

	FewPositions    = 3
	LongerPositions = FewPositions + 1
)

// Source is what a graph reads from outside.
type Source struct {
	// Inputs are the values of the builder that are the graph's inputs, by the names of these.
	// Whole numbers are i32.
	Inputs map[string]string
	// Samples is an input of the model whose first dimension counts samples, and with Longer
	// the second one positions.
	Samples string
	// Read fills in the numbers of a variable.
	Read func(v *graph.Value, dst []byte) error
}

// Append appends the nodes that the first output of a graph needs, and returns that output
// with its dimensions. It fails with [ErrOp] where an op has no form in ONNX, and names the
// layers of all such ops.
func Append(b *Builder, g Graphs, s Source) (output string, dims []Dim, err error) {
	x := &converting{b: b, source: s, names: map[*graph.Value]string{}, masks: map[attentionMask]string{}}
	out := g.Few.Outputs[0]
	needed := needs(out)
	if err := refusals(g.Few, needed); err != nil {
		return "", nil, err
	}
	if x.more, err = pairs(g.Few, g.More); err == nil && g.Longer != nil {
		x.longer, err = pairs(g.Few, g.Longer)
	}
	if err != nil {
		return "", nil, err
	}
	for _, n := range g.Few.Nodes {
		if !needed[n] {
			continue
		}
		if err := x.node(n); err != nil {
			return "", nil, err
		}
	}
	if output, err = x.value(out); err != nil {
		return "", nil, err
	}
	for i := range out.Meta.Shape {
		s, err := x.size(out, func(v *graph.Value) int { return v.Meta.Shape[i] })
		if err != nil {
			return "", nil, err
		}
		dims = append(dims, s.dim())
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
		if _, known := forms[kind]; !needed[n] || known && !graph.BringsKernel(n.Op) {
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
	b            *Builder
	source       Source
	names        map[*graph.Value]string // in the model
	more, longer twins
	counts       [2]string                // the numbers of samples and positions, i64[1]; "" until they are needed
	masks        map[attentionMask]string // of attention
}

// twins are the same values of the graph in another size, and nodes likewise.
type twins struct {
	values map[*graph.Value]*graph.Value
	nodes  map[*graph.Node]*graph.Node
}

// pairs finds the same values in both graphs.
func pairs(g, other *graph.Graph) (twins, error) {
	t := twins{map[*graph.Value]*graph.Value{}, map[*graph.Node]*graph.Node{}}
	if len(g.Nodes) != len(other.Nodes) || len(g.Vars) != len(other.Vars) {
		return t, fmt.Errorf("%w: the number of nodes depends on the number of samples or positions", ErrOp)
	}
	match := func(a, b []*graph.Value) {
		for i := range a {
			t.values[a[i]] = b[i]
		}
	}
	match(g.Inputs, other.Inputs)
	match(g.Vars, other.Vars)
	for _, v := range g.Vars {
		if w := t.values[v]; v.Name != w.Name || !v.Meta.Equal(w.Meta) {
			return t, fmt.Errorf("%w: the weight %s depends on the number of samples or positions", ErrOp, v.Name)
		}
	}
	for i, n := range g.Nodes {
		twin := other.Nodes[i]
		if forms[n.Op.Kind()].sized && n.Op.Kind() == twin.Op.Kind() || graph.OpString(n.Op) == graph.OpString(twin.Op) {
			t.nodes[n] = twin
			match(n.Out, twin.Out)
			continue
		}
		return t, fmt.Errorf("%w: %v: %s depends on the number of samples or positions", ErrOp, n.Layer, graph.OpString(n.Op))
	}
	return t, nil
}

// node appends the form of a node.
func (x *converting) node(n *graph.Node) error {
	c := &call{b: x.b, x: x, n: n}
	for _, v := range n.In {
		name, err := x.value(v)
		if err != nil {
			return err
		}
		c.in = append(c.in, name)
	}
	out := forms[n.Op.Kind()].build(c)
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

// size is a number that may depend on the model's inputs: fixed, or so many times the samples or
// the positions.
type size struct{ fixed, samples, positions int }

// moves reports whether the size is not fixed.
func (s size) moves() bool { return s.samples+s.positions > 0 }

// dim is the size as a dimension.
func (s size) dim() Dim {
	n, name := s.samples, Batch
	if s.positions > 0 {
		n, name = s.positions, Positions
	}
	switch n {
	case 0:
		return Dim{Size: s.fixed}
	case 1:
		return Dim{Name: name}
	}
	return Dim{Name: fmt.Sprintf("%d*%s", n, name)}
}

// size is the size that of gives of a value.
func (x *converting) size(v *graph.Value, of func(*graph.Value) int) (size, error) {
	few := of(v)
	bySamples, byPositions := of(x.more.values[v])-few, 0
	if x.longer.values != nil {
		byPositions = of(x.longer.values[v]) - few
	}
	return sized(few, bySamples, byPositions)
}

// sized is the size that is few in the graph Few, and grows so much with a sample and with a
// position.
func sized(few, bySamples, byPositions int) (size, error) {
	switch {
	case bySamples == 0 && byPositions == 0:
		return size{fixed: few}, nil
	case byPositions == 0 && few == bySamples*Few:
		return size{samples: bySamples}, nil
	case bySamples == 0 && few == byPositions*FewPositions:
		return size{positions: byPositions}, nil
	}
	return size{}, fmt.Errorf("a size is %d, %d more with another sample, and %d more with another position", few, bySamples, byPositions)
}

// sizes are those that of gives of the node.
func (c *call) sizes(of func(*graph.Node) []int) []size {
	few, more := of(c.n), of(c.x.more.nodes[c.n])
	longer := few
	if c.x.longer.nodes != nil {
		longer = of(c.x.longer.nodes[c.n])
	}
	list := make([]size, len(few))
	for i := range few {
		s, err := sized(few[i], more[i]-few[i], longer[i]-few[i])
		if err != nil {
			c.err = err
		}
		list[i] = s
	}
	return list
}

// vector is a vector i64 of sizes.
func (c *call) vector(list []size) string {
	fixed := make([]int64, len(list))
	for i, s := range list {
		fixed[i] = int64(s.fixed)
	}
	if !slices.ContainsFunc(list, size.moves) {
		return c.b.Ints(fixed...)
	}
	parts := make([]string, len(list))
	for i, s := range list {
		n, axis := s.samples, 0
		if s.positions > 0 {
			n, axis = s.positions, 1
		}
		switch {
		case n == 0:
			parts[i] = c.b.Ints(fixed[i])
		case n == 1:
			parts[i] = c.x.count(axis)
		default:
			parts[i] = c.b.Node("Mul", nil, c.x.count(axis), c.b.Ints(int64(n)))
		}
	}
	return c.b.Node("Concat", []Attr{{"axis", int64(0)}}, parts...)
}

// count is the number of samples (axis 0) or positions (axis 1), i64[1].
func (x *converting) count(axis int) string {
	if x.counts[axis] == "" {
		at := int64(axis)
		x.counts[axis] = x.b.Node("Shape", []Attr{{"start", at}, {"end", at + 1}}, x.source.Samples)
	}
	return x.counts[axis]
}
