package graph

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// Composite is an op that is made of others. A builder appends its parts in its place,
// so that devices need no kernel for it. Its gradient follows from its parts, unless it
// has the method of [OwnGradient].
type Composite interface {
	// Kind names the op in errors.
	Kind() string
	// Expand appends the parts and returns the outputs, one to [MaxResults], none of which
	// is an input as it came. It depends on the attributes and on the inputs' metadata
	// alone, and may be called from any goroutine.
	Expand(b *Builder, in []*Value) []*Value
}

// OwnGradient is a composite that knows its gradient better than its parts do. Its parts
// read nothing but the inputs and each other.
type OwnGradient interface {
	Composite
	// Grad is [Op.Grad]. n has the inputs and outputs of the whole composite.
	Grad(b *Builder, n *Node, dy []*Value) []*Value
}

// Compose makes an op of a composite, to be applied as any other. Its attributes are the
// fields of c. Where it runs op by op, they are numbers, strings, bools and lists of them.
func Compose(c Composite) Op { return composed{c, reflect.TypeOf(c)} }

// composed gives a composite the methods of an op.
type composed struct {
	Composite
	Type reflect.Type // the Go type; printed, it tells composites of one kind and equal attributes apart
}

// Infer expands the composite on its own.
func (o composed) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := printable(reflect.ValueOf(o.Composite)); err != nil {
		return nil, err
	}
	g, err := Expanded(o.Composite, in, nil)
	if err != nil {
		return nil, err
	}
	return Metas(g.Outputs), nil
}

// Grad is the composite's own gradient; without one, its parts are differentiated.
func (o composed) Grad(b *Builder, n *Node, dy []*Value) []*Value {
	return o.Composite.(OwnGradient).Grad(b, n, dy)
}

// Cost adds up the parts.
func (o composed) Cost(in, _ []shape.Meta) Cost {
	g, err := Expanded(o.Composite, in, nil)
	if err != nil {
		return Cost{} // Infer tells
	}
	return g.Cost()
}

// hasOwnGradient reports whether a composite is differentiated as a whole. An op that is a
// composite by itself has a Grad because every op has one.
func hasOwnGradient(c Composite) bool {
	o, ok := c.(composed)
	if !ok {
		return false
	}
	_, own := o.Composite.(OwnGradient)
	return own
}

// printable says why attributes do not print as their contents. Composites that print
// alike share executables.
func printable(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if err := printable(v.Field(i)); err != nil {
				return fmt.Errorf("field %s: %w", v.Type().Field(i).Name, err)
			}
		}
	case reflect.Interface:
		if !v.IsNil() && v.Type() != reflect.TypeFor[reflect.Type]() {
			return printable(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := printable(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Pointer, reflect.UnsafePointer, reflect.Func, reflect.Chan, reflect.Map:
		return fmt.Errorf("%v does not print as its contents: use numbers, strings and lists of them", v.Type())
	}
	return nil
}

// Expanded is the graph of a composite's parts for inputs of that metadata. An error of stop,
// unless that is nil, ends it.
func Expanded(c Composite, in []shape.Meta, stop func() error) (*Graph, error) {
	b := NewBuilder(c.Kind(), 1)
	b.Stop(stop)
	vs := make([]*Value, len(in))
	for i, m := range in {
		vs[i] = b.Input(fmt.Sprintf("in%d", i), m)
	}
	for i, v := range b.expand(c, vs) {
		b.Output(fmt.Sprintf("out%d", i), v)
	}
	return b.Graph()
}

// expand appends a composite's parts.
func (b *Builder) expand(c Composite, in []*Value) []*Value {
	if b.stopped() {
		return b.broken(c.Kind())
	}
	first := len(b.g.Nodes)
	var outs []*Value
	b.Fail(guarded(c.Kind(), "Expand", func() { outs = c.Expand(b, in) }))
	if b.err == nil {
		b.Fail(checkExpanded(c.Kind(), in, outs))
	}
	if b.err == nil && hasOwnGradient(c) {
		b.Fail(b.keepWhole(c, first, in, outs))
	}
	if b.err != nil {
		return b.broken(c.Kind())
	}
	return outs
}

// MaxResults is the most outputs of a composite. Other ops have at most eight.
const MaxResults = 1024

// checkExpanded says why values cannot be the outputs of a composite.
func checkExpanded(kind string, in, outs []*Value) error {
	if len(outs) == 0 || len(outs) > MaxResults {
		return ShapeError(fmt.Errorf("%s has %d results: return 1 to %d", kind, len(outs), MaxResults))
	}
	for i, v := range outs {
		switch {
		case v == nil:
			return ShapeError(fmt.Errorf("result %d of %s is nil", i, kind))
		case slices.Contains(in, v):
			return ShapeError(fmt.Errorf("result %d of %s is its input %d as it came: return a copy, such as a reshape of it", i, kind, slices.Index(in, v)))
		case slices.Contains(outs[:i], v):
			return ShapeError(fmt.Errorf("results %d and %d of %s are one value: return a copy, such as a reshape of it", slices.Index(outs, v), i, kind))
		}
	}
	return nil
}

// keepWhole has the nodes since first differentiated as one. A gradient that goes past the
// inputs would be lost, so they must be all that the nodes read.
func (b *Builder) keepWhole(c Composite, first int, in, outs []*Value) error {
	nodes := b.g.Nodes[first:]
	if len(nodes) == 0 {
		return nil
	}
	for _, n := range nodes {
		for _, v := range n.In {
			own := v.Kind == Computed && v.Node.ID >= nodes[0].ID
			if !own && !slices.Contains(in, v) {
				return fmt.Errorf("%w: %s has a gradient of its own but reads %v, which is no input: pass it as one", ErrShape, c.Kind(), v)
			}
		}
	}
	if b.wholes == nil {
		b.wholes = map[int]whole{}
	}
	last := nodes[len(nodes)-1]
	n := &Node{ID: last.ID, Op: c.(composed), In: in, Out: outs, Phase: last.Phase, Layer: b.layer}
	b.wholes[len(b.g.Nodes)-1] = whole{first, n} // one around another is kept later
	return nil
}
