package graph

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// Apply appends a node, or the parts of a [Composite], and returns the outputs.
func (b *Builder) Apply(op Op, in ...*Value) []*Value {
	if i := slices.Index(in, nil); i >= 0 {
		b.Fail(fmt.Errorf("input %d of %s is nil: give a value of this builder", i, op.Kind()))
	}
	in = b.inside(in)
	if c, ok := op.(Composite); ok {
		return b.expand(c, in)
	}
	metas, err := b.infer(op, in)
	if err != nil {
		b.Fail(err)
	}
	if b.stopped() {
		return b.broken(op.Kind())
	}
	n := &Node{ID: len(b.g.Nodes), Op: op, In: in, Out: make([]*Value, 0, len(metas)), Phase: b.phase, Layer: b.layer, Of: b.of, Conditional: b.conditional()}
	for i, m := range metas {
		v := b.value(b.outName(op, i), m)
		v.Node, v.Out = n, i
		n.Out = append(n.Out, v)
	}
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Out
}

// One is Apply for ops with one output, or of whose outputs only the first is
// needed.
func (b *Builder) One(op Op, in ...*Value) *Value { return b.Apply(op, in...)[0] }

// infer is the metadata of an op's outputs.
func (b *Builder) infer(op Op, in []*Value) ([]shape.Meta, error) {
	if b.err != nil {
		return nil, b.err
	}
	b.metas = b.metas[:0]
	for _, v := range in {
		b.metas = append(b.metas, v.Meta)
	}
	var out []shape.Meta
	var refused error
	err := guard(op, "Infer", func() { out, refused = op.Infer(b.metas) })
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return nil, b.shapeError(op, refused)
	case len(out) == 0:
		return nil, wrong(op, "Infer", "no outputs: give at least one")
	}
	for _, m := range out {
		if err := m.Shape.Validate(); err != nil {
			return nil, b.shapeError(op, err)
		}
	}
	if BringsKernel(op) { // later, nobody expects a panic
		err = guard(op, "Cost", func() { op.Cost(b.metas, out) })
	}
	return out, err
}

// shapeError is a metadata rule's error. In a layer it reads as the rule words it,
// since the layer is named; outside a layer it names the op.
func (b *Builder) shapeError(op Op, err error) error {
	if b.layer == nil {
		err = fmt.Errorf("%s: %w", op.Kind(), err)
	}
	return ShapeError(err)
}

// ShapeError is an [ErrShape] that reads as err, the words of a metadata rule.
func ShapeError(err error) error { return ruleError{err} }

type ruleError struct{ error }

// Unwrap gives both of its causes: ErrShape and the error that it wraps.
func (e ruleError) Unwrap() []error { return []error{ErrShape, e.error} }

// broken stands in for the outputs of an op that could not be appended.
func (b *Builder) broken(kind string) []*Value {
	if b.stopgap == nil {
		b.stopgap = slices.Repeat([]*Value{{Name: "broken." + kind, Meta: shape.F32()}}, MaxResults)
	}
	return b.stopgap
}

// outName is the name of output i of an op: "fc.matmul", "backward/fc.matmul:1".
func (b *Builder) outName(op Op, i int) string {
	name := op.Kind()
	if b.layer != nil {
		name = b.layer.Name + "." + name
	}
	if b.phase != Forward {
		name = phaseNames[b.phase] + "/" + name
	}
	if i > 0 {
		name = fmt.Sprintf("%s:%d", name, i)
	}
	return name
}
