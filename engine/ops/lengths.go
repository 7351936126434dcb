package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// lengthOps are the rows of the op table that are in this file.
var lengthOps = []graph.Op{PadWith{}, PositionWeights{}}

// The ops of this file know the lengths of sequences that are padded to one size: lengths
// i32[B] has the number of positions of each of B sequences that are no padding. A length
// below 0 counts as 0, and one above the size as the size. A sequence of length 0 is
// padding as a whole. No gradient flows through them.

// PadWith writes Value over the padding: from (x i32[B,T], lengths) to i32[B,T]. x i32[B]
// has one number for each sequence, which is padding if the length is 0.
type PadWith struct{ Value int }

// Kind is "pad_with".
func (o PadWith) Kind() string { return "pad_with" }

// Infer keeps the metadata of x.
func (o PadWith) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if r := in[0].Shape.Rank(); in[0].DType != shape.Int32 || r < 1 || r > 2 {
		return nil, fmt.Errorf("input is %v, expected i32 [sequences] or [sequences, positions]", in[0])
	}
	return one(in[0]), expect("lengths", in[1], shape.I32(in[0].Shape[0]))
}

// Grad is none: it moves whole numbers.
func (o PadWith) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a comparison per element.
func (o PadWith) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, out[0].Elems(), in, out) }

// PositionWeights are 1 for positions that count and 0 for padding: f32[B,T,1] from
// lengths. With Mean they are 1/length in place of 1, so that a weighted sum is the mean.
type PositionWeights struct {
	T    int // positions
	Mean bool
}

// Kind is "position_weights".
func (o PositionWeights) Kind() string { return "position_weights" }

// Infer wants lengths.
func (o PositionWeights) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if o.T < 1 {
		return nil, fmt.Errorf("sequences of %d positions: give each at least 1", o.T)
	}
	if in[0].Shape.Rank() != 1 {
		return nil, fmt.Errorf("lengths are %v, expected i32[sequences]", in[0])
	}
	return one(shape.F32(in[0].Shape[0], o.T, 1)), expect("lengths", in[0], shape.I32(in[0].Shape[0]))
}

// Grad is none: lengths are whole numbers.
func (o PositionWeights) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a comparison per position.
func (o PositionWeights) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(1, out[0].Elems(), in, out)
}
