package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// lossOps are the rows of the op table that are in this file.
var lossOps = []graph.Op{
	CrossEntropy{}, CrossEntropyGrad{}, MSE{}, MSEGrad{}, BCE{}, BCEGrad{},
	Correct{}, BinaryCorrect{}, CheckFinite{},
}

// CrossEntropy is the sum over rows of log sum exp(logits) - logits[target],
// from (logits [...,C], targets i32 [...]) to loss f32[] and lse f32 [...],
// which is log sum exp of each row, kept for the gradient. With Padded, a row whose
// target is -1 is padding: its loss, its lse and its gradient are 0.
type CrossEntropy struct{ Padded bool }

// Kind is "cross_entropy".
func (o CrossEntropy) Kind() string { return "cross_entropy" }

// Infer wants one class index per row.
func (o CrossEntropy) Infer(in []shape.Meta) ([]shape.Meta, error) {
	rows, err := classified(in, 2)
	if err != nil {
		return nil, err
	}
	return []shape.Meta{shape.F32(), f32(rows)}, nil
}

// Grad is [CrossEntropyGrad]; nothing flows to the targets.
func (o CrossEntropy) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if !onlyFirst(b, n, dy) {
		return noGrad(n)
	}
	return []*graph.Value{b.One(CrossEntropyGrad(o), n.In[0], n.In[1], n.Out[1], dy[0]), nil}
}

// Cost counts the exponential as about ten operations.
func (o CrossEntropy) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(12, in[0].Elems(), in, out)
}

// CrossEntropyGrad is dlogits = (softmax(logits) - onehot(target)) dloss from
// (logits, targets, lse, dloss f32[]). Padded is as in [CrossEntropy].
type CrossEntropyGrad struct{ Padded bool }

// Kind is "cross_entropy_grad".
func (o CrossEntropyGrad) Kind() string { return "cross_entropy_grad" }

// Infer keeps the metadata of the logits.
func (o CrossEntropyGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	rows, err := classified(in, 4)
	if err != nil {
		return nil, err
	}
	if err := expect("lse", in[2], f32(rows)); err != nil {
		return nil, err
	}
	return one(in[0]), expect("dloss", in[3], shape.F32())
}

// Grad fails: see noSecond.
func (o CrossEntropyGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Alias lets the gradient take the place of the logits.
func (o CrossEntropyGrad) Alias() []int { return []int{0} }

// Cost counts the exponential as about ten operations.
func (o CrossEntropyGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(12, in[0].Elems(), in, out)
}

// MSE is the sum of squared differences of (pred, target), f32[].
type MSE struct{}

// Kind is "mse".
func (o MSE) Kind() string { return "mse" }

// Infer wants two equal shapes.
func (o MSE) Infer(in []shape.Meta) ([]shape.Meta, error) { return compared(in) }

// Grad is [MSEGrad], with the sign turned for the target.
func (o MSE) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	d := b.One(MSEGrad{}, n.In[0], n.In[1], dy[0])
	return []*graph.Value{d, Neg(b, d)}
}

// Cost is three operations per element.
func (o MSE) Cost(in, out []shape.Meta) graph.Cost { return perElem(3, in[0].Elems(), in, out) }

// MSEGrad is dpred = 2 (pred - target) dloss from (pred, target, dloss f32[]).
type MSEGrad struct{}

// Kind is "mse_grad".
func (o MSEGrad) Kind() string { return "mse_grad" }

// Infer keeps the metadata of the prediction.
func (o MSEGrad) Infer(in []shape.Meta) ([]shape.Meta, error) { return comparedGrad(in) }

// Grad fails: see noSecond.
func (o MSEGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is three operations per element.
func (o MSEGrad) Cost(in, out []shape.Meta) graph.Cost { return perElem(3, in[0].Elems(), in, out) }

// BCE is the binary cross-entropy of (logits, target f32 in [0,1]), summed:
// max(x,0) - x t + log(1 + exp(-|x|)).
type BCE struct{}

// Kind is "bce".
func (o BCE) Kind() string { return "bce" }

// Infer wants two equal shapes.
func (o BCE) Infer(in []shape.Meta) ([]shape.Meta, error) { return compared(in) }

// Grad is [BCEGrad] for the logits and -logits dloss for the target.
func (o BCE) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{
		b.One(BCEGrad{}, n.In[0], n.In[1], dy[0]),
		Neg(b, Mul(b, n.In[0], dy[0])),
	}
}

// Cost counts exponential and logarithm as about ten operations each.
func (o BCE) Cost(in, out []shape.Meta) graph.Cost { return perElem(24, in[0].Elems(), in, out) }

// BCEGrad is dlogits = (sigmoid(logits) - target) dloss from
// (logits, target, dloss f32[]).
type BCEGrad struct{}

// Kind is "bce_grad".
func (o BCEGrad) Kind() string { return "bce_grad" }

// Infer keeps the metadata of the logits.
func (o BCEGrad) Infer(in []shape.Meta) ([]shape.Meta, error) { return comparedGrad(in) }

// Grad fails: see noSecond.
func (o BCEGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost counts the exponential as about ten operations.
func (o BCEGrad) Cost(in, out []shape.Meta) graph.Cost { return perElem(12, in[0].Elems(), in, out) }

// Correct counts the rows of logits [...,C] whose largest element, the first
// of equals, is at targets i32 [...]; f32[]. With Padded, a row whose target is -1
// does not count.
type Correct struct{ Padded bool }

// Kind is "correct".
func (o Correct) Kind() string { return "correct" }

// Infer wants one class index per row.
func (o Correct) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if _, err := classified(in, 2); err != nil {
		return nil, err
	}
	return one(shape.F32()), nil
}

// Grad is none: a count has no slope.
func (o Correct) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is a comparison per element.
func (o Correct) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, in[0].Elems(), in, out) }

// BinaryCorrect counts the elements for which logit > 0 agrees with target > 0.5;
// f32[].
type BinaryCorrect struct{}

// Kind is "binary_correct".
func (o BinaryCorrect) Kind() string { return "binary_correct" }

// Infer wants two equal shapes.
func (o BinaryCorrect) Infer(in []shape.Meta) ([]shape.Meta, error) { return compared(in) }

// Grad is none: a count has no slope.
func (o BinaryCorrect) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost is two comparisons per element.
func (o BinaryCorrect) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(2, in[0].Elems(), in, out)
}

// CheckFinite passes a scalar x f32[] on. At run time it fails if x is not finite:
// this stops a run that diverged.
type CheckFinite struct{}

// Kind is "check_finite".
func (o CheckFinite) Kind() string { return "check_finite" }

// Infer wants a scalar.
func (o CheckFinite) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return one(in[0]), expect("input", in[0], shape.F32())
}

// Grad passes dy on.
func (o CheckFinite) Grad(_ *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{dy[0]}
}

// Cost is one comparison.
func (o CheckFinite) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, 1, in, out) }

// Alias lets the output be the input.
func (o CheckFinite) Alias() []int { return []int{0} }

// classified checks logits [...,C] and targets i32 [...] at the start of n
// inputs, and returns the rows [...].
func classified(in []shape.Meta, n int) (shape.Shape, error) {
	if err := arity(in, n); err != nil {
		return nil, err
	}
	if err := isFloat("logits", in[0], 1); err != nil {
		return nil, err
	}
	if in[0].Shape.Dim(-1) == 0 {
		return nil, fmt.Errorf("logits are %v, expected at least 1 class", in[0])
	}
	rows := lead(in[0].Shape)
	want := shape.Meta{DType: shape.Int32, Shape: rows}
	if !in[1].Equal(want) {
		return nil, fmt.Errorf("targets are %v, logits %v expect %v", in[1], in[0], want)
	}
	return rows, nil
}

// compared infers f32[], the sum over two tensors of equal shape.
func compared(in []shape.Meta) ([]shape.Meta, error) {
	if _, err := sameShapes(in); err != nil {
		return nil, err
	}
	return one(shape.F32()), nil
}

// comparedGrad infers the gradient of such a sum.
func comparedGrad(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 3); err != nil {
		return nil, err
	}
	if _, err := sameShapes(in[:2]); err != nil {
		return nil, err
	}
	return one(in[0]), expect("dloss", in[2], shape.F32())
}
