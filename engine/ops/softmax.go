package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// softmaxOps are the rows of the op table that are in this file.
var softmaxOps = []graph.Op{Softmax{}, SoftmaxGrad{}, LogSoftmax{}, LogSoftmaxGrad{}}

// Softmax is exp(x)/sum exp(x) over the last axis.
type Softmax struct{}

// Kind is "softmax".
func (o Softmax) Kind() string { return "softmax" }

// Infer keeps the input's metadata.
func (o Softmax) Infer(in []shape.Meta) ([]shape.Meta, error) { return lastAxis(in) }

// Grad is [SoftmaxGrad] of the output.
func (o Softmax) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{b.One(SoftmaxGrad{}, n.Out[0], dy[0])}
}

// Alias lets y take the place of x.
func (o Softmax) Alias() []int { return []int{0} }

// Cost counts the exponential as about ten operations.
func (o Softmax) Cost(in, out []shape.Meta) graph.Cost { return perElem(12, in[0].Elems(), in, out) }

// SoftmaxGrad is dx = y (dy - sum(y dy)) from (y, dy).
type SoftmaxGrad struct{}

// Kind is "softmax_grad".
func (o SoftmaxGrad) Kind() string { return "softmax_grad" }

// Infer wants two equal shapes.
func (o SoftmaxGrad) Infer(in []shape.Meta) ([]shape.Meta, error) { return sameShapes(in) }

// Grad fails: see noSecond.
func (o SoftmaxGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Alias lets dx take the place of dy.
func (o SoftmaxGrad) Alias() []int { return []int{1} }

// Cost is four operations per element.
func (o SoftmaxGrad) Cost(in, out []shape.Meta) graph.Cost { return perElem(4, in[0].Elems(), in, out) }

// LogSoftmax is x - log sum exp(x) over the last axis.
type LogSoftmax struct{}

// Kind is "log_softmax".
func (o LogSoftmax) Kind() string { return "log_softmax" }

// Infer keeps the input's metadata.
func (o LogSoftmax) Infer(in []shape.Meta) ([]shape.Meta, error) { return lastAxis(in) }

// Grad is [LogSoftmaxGrad] of the output.
func (o LogSoftmax) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{b.One(LogSoftmaxGrad{}, n.Out[0], dy[0])}
}

// Alias lets y take the place of x.
func (o LogSoftmax) Alias() []int { return []int{0} }

// Cost counts the exponential as about ten operations.
func (o LogSoftmax) Cost(in, out []shape.Meta) graph.Cost { return perElem(12, in[0].Elems(), in, out) }

// LogSoftmaxGrad is dx = dy - exp(y) sum(dy) from (y, dy).
type LogSoftmaxGrad struct{}

// Kind is "log_softmax_grad".
func (o LogSoftmaxGrad) Kind() string { return "log_softmax_grad" }

// Infer wants two equal shapes.
func (o LogSoftmaxGrad) Infer(in []shape.Meta) ([]shape.Meta, error) { return sameShapes(in) }

// Grad fails: see noSecond.
func (o LogSoftmaxGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Alias lets dx take the place of y.
func (o LogSoftmaxGrad) Alias() []int { return []int{0} }

// Cost counts the exponential as about ten operations.
func (o LogSoftmaxGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(12, in[0].Elems(), in, out)
}

// lastAxis is the rule of ops that normalise over the last axis.
func lastAxis(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 1); err != nil {
		return nil, err
	}
	if s := in[0].Shape; s.Rank() == 0 || s.Dim(-1) == 0 {
		return nil, fmt.Errorf("input is %v, expected a last dimension of at least 1", in[0])
	}
	return one(in[0]), nil
}

// SoftmaxOf is the softmax over the last axis.
func SoftmaxOf(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Softmax{}, x) }

// LogSoftmaxOf is the logarithm of the softmax over the last axis.
func LogSoftmaxOf(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(LogSoftmax{}, x) }
