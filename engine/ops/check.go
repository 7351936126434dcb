package ops

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// ErrNoGradient is the cause of an error about an op or output without gradient.
var ErrNoGradient = errors.New("no gradient")

// arity checks the number of inputs.
func arity(in []shape.Meta, n int) error {
	if len(in) != n {
		return fmt.Errorf("takes %d inputs, got %d", n, len(in))
	}
	return nil
}

// floats checks the number of inputs and that all of them are float32.
func floats(in []shape.Meta, n int) error {
	if err := arity(in, n); err != nil {
		return err
	}
	for i, m := range in {
		if m.DType != shape.Float32 {
			return fmt.Errorf("input %d is %v, expected f32: convert it where it enters the graph", i, m)
		}
	}
	return nil
}

// expect checks that one input has the metadata that it must have.
func expect(what string, got, want shape.Meta) error {
	if !got.Equal(want) {
		return fmt.Errorf("%s is %v, expected %v", what, got, want)
	}
	return nil
}

// isFloat checks that one input is float32 of at least that rank.
func isFloat(what string, m shape.Meta, rank int) error {
	if m.DType != shape.Float32 {
		return fmt.Errorf("%s is %v, expected f32", what, m)
	}
	if m.Shape.Rank() < rank {
		return fmt.Errorf("%s is %v, expected at least %d dimensions", what, m, rank)
	}
	return nil
}

// isInt checks that one input is int32.
func isInt(what string, m shape.Meta) error {
	if m.DType != shape.Int32 {
		return fmt.Errorf("%s is %v, expected i32", what, m)
	}
	return nil
}

// one is the result of a metadata rule with one output.
func one(m shape.Meta) []shape.Meta { return []shape.Meta{m} }

// f32 is the metadata of a float32 tensor of shape s.
func f32(s shape.Shape) shape.Meta { return shape.Meta{DType: shape.Float32, Shape: s} }

// lead is s without its last dimension.
func lead(s shape.Shape) shape.Shape { return s[:len(s)-1].Clone() }

// traffic is the bytes of all inputs and outputs, each once.
func traffic(in, out []shape.Meta) int64 {
	var n int64
	for _, m := range in {
		n += m.Bytes()
	}
	for _, m := range out {
		n += m.Bytes()
	}
	return n
}

// perElem is a cost of that many operations for each of n elements, at least
// one operation in all.
func perElem(flops, n int, in, out []shape.Meta) graph.Cost {
	return graph.Cost{Flops: max(1, int64(flops)*int64(n)), Bytes: traffic(in, out)}
}

// noGrad is the gradients of ops through which nothing flows: counts, and all ops
// of the Update phase.
func noGrad(n *graph.Node) []*graph.Value { return make([]*graph.Value, len(n.In)) }

// noSecond is the gradient of ops that are themselves gradients: the builder
// fails, because training needs no second derivative.
func noSecond(b *graph.Builder, n *graph.Node) []*graph.Value {
	b.Fail(fmt.Errorf("%w: %s is itself a gradient and cannot be differentiated again: take gradients of the loss once",
		ErrNoGradient, n.Op.Kind()))
	return noGrad(n)
}

// onlyFirst tells whether the first output has a gradient. The other outputs are
// for the backward pass or statistics: if one of them has a gradient, because a
// loss depends on it, the builder fails.
func onlyFirst(b *graph.Builder, n *graph.Node, dy []*graph.Value) bool {
	for i, d := range dy[1:] {
		if d != nil {
			b.Fail(fmt.Errorf("%w: output %d of %s is for the backward pass or for statistics: compute it with other ops if a loss depends on it",
				ErrNoGradient, i+1, n.Op.Kind()))
			return false
		}
	}
	return dy[0] != nil
}
