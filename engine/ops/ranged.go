package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// rangedOps are the rows of the op table that are in this file, and Averaged.
var rangedOps = []graph.Op{Averaged{}, Ranged{}, SquareParts{}, SquareTotal{}}

// SumElems is the number of elements that a sum over a whole tensor adds up at a
// time. Ranges begin at multiples of it, so a norm can be computed range by range,
// with the same bits.
const SumElems = 1 << 16

// Ranged is the update Op of elements From to From+Count of its tensors, in
// row-major order: the same bits as in the update of all elements. An input is the
// range alone, as [Count], or the tensor that has it, of any shape. Scalars stay as
// they are. Each output is the input that Op computes it in place of, with the range
// changed. With Apart, the first output is the range alone, and the first input, the
// weight, stays as it is.
type Ranged struct {
	Op          graph.Op // [SGD], [Adam], [Lion] or [Averaged]
	From, Count int
	Apart       bool
}

// Kind is "ranged".
func (o Ranged) Kind() string { return "ranged" }

// String has the kind and the attributes of Op.
func (o Ranged) String() string {
	return fmt.Sprintf("{%s From:%d Count:%d Apart:%v}", graph.OpString(o.Op), o.From, o.Count, o.Apart)
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
	alias := o.Places()
	if alias == nil {
		return nil, fmt.Errorf("%T cannot update a range of a tensor: use SGD, Adam or Lion", o.Op)
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
		if i > 0 || !o.Apart {
			out[i] = in[alias[i]]
		}
	}
	return out, nil
}

// Grad is none: updates come after the backward pass.
func (o Ranged) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost counts the range alone.
func (o Ranged) Cost(in, out []shape.Meta) graph.Cost { return o.Op.Cost(o.Parts(in), o.Parts(out)) }

// Alias is the same as for Op, without the weight if the range is apart.
func (o Ranged) Alias() []int {
	at := o.Places()
	if at != nil && o.Apart {
		at[0] = -1
	}
	return at
}

// Places is, per output, the input that has the old contents of the range.
func (o Ranged) Places() []int {
	if op, ok := o.Op.(Averaged); ok {
		return op.Alias()
	}
	return inPlace(o.Op)
}

// inPlace are the places that an optimizer's op updates; nil for another op.
func inPlace(op graph.Op) []int {
	switch op := op.(type) {
	case SGD:
		return op.Alias()
	case Adam:
		return op.Alias()
	case Lion:
		return op.Alias()
	}
	return nil
}

// SquareParts is the sums that [SumSquares] adds up: one for each SumElems elements,
// i32[sums,2]. A row is the bits of a float64, the low half first.
type SquareParts struct{}

// Kind is "square_parts".
func (o SquareParts) Kind() string { return "square_parts" }

// Infer counts the sums.
func (o SquareParts) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 1); err != nil {
		return nil, err
	}
	return one(shape.I32((in[0].Elems()+SumElems-1)/SumElems, 2)), nil
}

// Grad is none: norms are of gradients.
func (o SquareParts) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a multiply-add per element.
func (o SquareParts) Cost(in, out []shape.Meta) graph.Cost { return perElem(2, in[0].Elems(), in, out) }

// SquareTotal is the [SumSquares] of a tensor, from the [SquareParts] of its ranges in
// their order, with the same bits.
type SquareTotal struct{}

// Kind is "square_total".
func (o SquareTotal) Kind() string { return "square_total" }

// Infer wants the sums of ranges.
func (o SquareTotal) Infer(in []shape.Meta) ([]shape.Meta, error) {
	for i, m := range in {
		if m.DType != shape.Int32 || m.Shape.Rank() != 2 || m.Shape[1] != 2 {
			return nil, fmt.Errorf("input %d is %v, expected i32[sums,2]", i, m)
		}
	}
	return one(shape.F32()), nil
}

// Grad is none: norms are of gradients.
func (o SquareTotal) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is an addition per sum.
func (o SquareTotal) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, len(in), in, out) }
