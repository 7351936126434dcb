package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// rangedOps are the rows of the op table that are in this file.
var rangedOps = []graph.Op{Ranged{}}

// SumElems is the number of elements that a sum over a whole tensor adds up at a
// time. Ranges begin at multiples of it, so a norm can be computed range by range,
// with the same bits.
const SumElems = 1 << 16

// Ranged is the update Op of elements From to From+Count of its tensors, in
// row-major order: the same bits as in the update of all elements. An input is the
// range alone, as [Count], or the tensor that has it, of any shape. Scalars stay as
// they are. Each output is the input that Op computes it in place of, with the range
// changed.
type Ranged struct {
	Op          graph.Op // [SGD] or [Adam]
	From, Count int
}

// Kind is "ranged".
func (o Ranged) Kind() string { return "ranged" }

// String has the kind and the attributes of Op.
func (o Ranged) String() string {
	return fmt.Sprintf("{%s From:%d Count:%d}", graph.OpString(o.Op), o.From, o.Count)
}

// Cuts reports whether input is a tensor that has more than the range.
func (o Ranged) Cuts(input shape.Meta) bool {
	return input.Shape.Rank() > 0 && !input.Shape.Equal(shape.Of(o.Count))
}

// Parts is the metadata of the range of each tensor.
func (o Ranged) Parts(of []shape.Meta) []shape.Meta {
	parts := make([]shape.Meta, len(of))
	for i, m := range of {
		if parts[i] = m; o.Cuts(m) {
			parts[i].Shape = shape.Of(o.Count)
		}
	}
	return parts
}

// Infer checks the range, and Op with it.
func (o Ranged) Infer(in []shape.Meta) ([]shape.Meta, error) {
	alias := o.Alias()
	if alias == nil {
		return nil, fmt.Errorf("expected the update sgd or adam")
	}
	for i, m := range in {
		if o.Cuts(m) && (o.From < 0 || o.Count < 0 || o.From+o.Count > m.Elems()) {
			return nil, fmt.Errorf("elements %d to %d are outside input %d, %v", o.From, o.From+o.Count, i, m)
		}
	}
	out, err := o.Op.Infer(o.Parts(in))
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = in[alias[i]]
	}
	return out, nil
}

// Grad is none: updates come after the backward pass.
func (o Ranged) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is that of the range.
func (o Ranged) Cost(in, out []shape.Meta) graph.Cost { return o.Op.Cost(o.Parts(in), o.Parts(out)) }

// Alias is that of Op.
func (o Ranged) Alias() []int {
	switch op := o.Op.(type) {
	case SGD:
		return op.Alias()
	case Adam:
		return op.Alias()
	}
	return nil
}
