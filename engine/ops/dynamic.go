package ops

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// dynamicOps are the rows of the op table that are in this file.
var dynamicOps = []graph.Op{Nonzero{}, Unique{}}

// The contents of x say how many rows the results of these ops have. Results have room for the
// most rows that there can be, and the last one counts the rows: it is i32 [k], for the first k
// results. Rows behind them are 0.

// Nonzero is the indices of the elements of x that are not 0, in order: from x [...] of n
// elements to i32 [n,rank], and the number of its rows, i32 [1]. -0 is 0, and NaN is not. The
// rows behind them are 0.
type Nonzero struct{}

// Kind is "nonzero".
func (o Nonzero) Kind() string { return "nonzero" }

// Infer has room for all elements.
func (o Nonzero) Infer(in []shape.Meta) ([]shape.Meta, error) {
	n, err := counted(in)
	if err != nil {
		return nil, err
	}
	return []shape.Meta{shape.I32(n, in[0].Shape.Rank()), shape.I32(1)}, nil
}

// Grad is none: places have no slope.
func (o Nonzero) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a comparison per element.
func (o Nonzero) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, in[0].Elems(), in, out) }

// Unique is the values of x, each once and in ascending order: from x [...] of n elements to the
// values [n], how often each occurs, i32 [n], the index of each element's value, i32 [...], and
// the number of the values and of the counts, i32 [2]. -0 is 0, and all NaN are one value, the
// last. The values and counts behind them are 0.
type Unique struct{}

// Kind is "unique".
func (o Unique) Kind() string { return "unique" }

// Infer has room for a value for each element.
func (o Unique) Infer(in []shape.Meta) ([]shape.Meta, error) {
	n, err := counted(in)
	if err != nil {
		return nil, err
	}
	values := shape.Meta{DType: in[0].DType, Shape: shape.Of(n)}
	return []shape.Meta{values, shape.I32(n), shape.I32(in[0].Shape...), shape.I32(2)}, nil
}

// Grad is none: the order of elements has no slope.
func (o Unique) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is the comparisons of a sort.
func (o Unique) Cost(in, out []shape.Meta) graph.Cost {
	n := in[0].Elems()
	return perElem(bits.Len(uint(n)), n, in, out)
}

// counted is the number of elements of one tensor of f32 or i32.
func counted(in []shape.Meta) (int, error) {
	if err := arity(in, 1); err != nil {
		return 0, err
	}
	if t := in[0].DType; t != shape.Float32 && t != shape.Int32 {
		return 0, fmt.Errorf("x is %v, expected f32 or i32: convert it with ops.Cast", in[0])
	}
	n := in[0].Elems()
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("x is %v, expected at most %d elements, since their indices are i32", in[0], math.MaxInt32)
	}
	return n, nil
}
