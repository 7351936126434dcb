package ops

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// countOps are the rows of the op table that are in this file.
var countOps = []graph.Op{Outcome{}, BinaryOutcome{}, Rank{}, Tally{}}

// The ops of this file count answers for metrics. They have no gradient.

// Outcome is the cell of each row in a confusion matrix [C,C] of true and predicted
// classes: target*C + the first largest of the logits. From (logits [...,C], targets
// i32 [...]) to i32 [...]. With Padded, a row whose target is -1 is padding: its cell
// is -1.
type Outcome struct{ Padded bool }

// Kind is "outcome".
func (o Outcome) Kind() string { return "outcome" }

// Infer wants one class index per row, and numbers of cells that fit int32.
func (o Outcome) Infer(in []shape.Meta) ([]shape.Meta, error) {
	rows, err := classified(in, 2)
	if err != nil {
		return nil, err
	}
	if c := int64(in[0].Shape.Dim(-1)); c*c > math.MaxInt32 {
		return nil, fmt.Errorf("logits are %v, expected at most 46340 classes", in[0])
	}
	return one(shape.Meta{DType: shape.Int32, Shape: rows}), nil
}

// Grad is none: a class has no slope.
func (o Outcome) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a comparison per element.
func (o Outcome) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, in[0].Elems(), in, out) }

// BinaryOutcome is the cell of each element in the confusion matrices [n,2,2] of the n
// elements of a sample: 4*element + 2*(target > 0.5) + (logit > 0). From (logits
// [B,...], target [B,...]) to i32 [B,...].
type BinaryOutcome struct{}

// Kind is "binary_outcome".
func (o BinaryOutcome) Kind() string { return "binary_outcome" }

// Infer wants two equal shapes.
func (o BinaryOutcome) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if _, err := compared(in); err != nil {
		return nil, err
	}
	if err := isFloat("logits", in[0], 1); err != nil {
		return nil, err
	}
	return one(shape.Meta{DType: shape.Int32, Shape: in[0].Shape.Clone()}), nil
}

// Grad is none: an answer has no slope.
func (o BinaryOutcome) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is two comparisons per element.
func (o BinaryOutcome) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(2, in[0].Elems(), in, out)
}

// Rank counts the classes that a row puts before its target: 0 if the target is the model's
// first choice. A class comes before another if its logit is larger, or equal and its index
// smaller. NaN is smaller than numbers. From (logits [...,C], targets i32 [...]) to i32
// [...]. With Padded, a row whose target is -1 has the rank -1.
type Rank struct{ Padded bool }

// Kind is "rank".
func (o Rank) Kind() string { return "rank" }

// Infer wants one class index per row.
func (o Rank) Infer(in []shape.Meta) ([]shape.Meta, error) {
	rows, err := classified(in, 2)
	if err != nil {
		return nil, err
	}
	return one(shape.Meta{DType: shape.Int32, Shape: rows}), nil
}

// Grad is none: a number of classes has no slope.
func (o Rank) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is two comparisons per element.
func (o Rank) Cost(in, out []shape.Meta) graph.Cost { return perElem(2, in[0].Elems(), in, out) }

// Tally counts how often each index occurs: counts'[k] = counts[k] + the number of
// elements of indexes that are k. From (counts i32 [n], indexes i32 [...]) to i32 [n].
// An index outside [0,n) fails at run time; with Padded, -1 does not, and does not count.
type Tally struct{ Padded bool }

// Kind is "tally".
func (o Tally) Kind() string { return "tally" }

// Infer keeps the metadata of the counts.
func (o Tally) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if in[0].DType != shape.Int32 || in[0].Shape.Rank() != 1 {
		return nil, fmt.Errorf("counts are %v, expected i32 [n]", in[0])
	}
	return one(in[0]), isInt("indexes", in[1])
}

// Grad is none: counts come after the backward pass.
func (o Tally) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is an addition per index.
func (o Tally) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, in[1].Elems(), in, out) }

// Alias counts in place.
func (o Tally) Alias() []int { return []int{0} }
