package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

func init() {
	builtInLoss(LossType[struct{}]{Name: "mse", Doc: "For numbers.", Pads: true, Loss: against(ops.MSE{})})
	builtInLoss(LossType[BCEKeys]{
		Name: "bce", Doc: "For numbers from 0 to 1.", Bits: true, Applies: []string{"sigmoid", "softmax"},
		Loss: bce,
		Correct: func(b *Builder, _ BCEKeys, output, target *graph.Value) *graph.Value {
			return b.One(ops.BinaryCorrect{}, output, target)
		},
		Answer: func(b *Builder, _ BCEKeys, output *graph.Value) *graph.Value {
			return ops.Sigmoid(b.Builder, output)
		},
	})
}

// BCEKeys are the keys of the loss bce.
type BCEKeys struct {
	// PositiveWeights are of a config. In Go, [Spec.ClassWeights] has the numbers that follow.
	PositiveWeights registry.Weights `yaml:"positive_weights,omitempty" words:"balanced" min:"1e-6" max:"1e6" doc:"how much a 1 counts in training where a 0 counts 1, by label, such as '{spam:5}'; a label without a number counts 1. 'balanced': as often as it is 0 for each 1. The loss is divided by the number of targets, as PyTorch does with pos_weight; validation losses are without"`
}

// bce is, in training with weights p of ones, the sum of (1-y)·x + (1+(p-1)·y)·log(1+exp(-x)).
func bce(b *Builder, k BCEKeys, x, y *graph.Value) *graph.Value {
	p := lossWeights(b, "positive_weights", k.PositiveWeights, b.c.spec.Target.Elems())
	if p == nil {
		return b.One(ops.BCE{}, x, y)
	}
	p = ops.ReshapeTo(b.Builder, ops.AddConst(b.Builder, p, -1), b.c.spec.Target.Shape...)
	weights := ops.AddConst(b.Builder, ops.Mul(b.Builder, y, p), 1)
	small := ops.Exp(b.Builder, ops.Neg(b.Builder, ops.Abs(b.Builder, x)))
	off := ops.Add(b.Builder, ops.Relu(b.Builder, ops.Neg(b.Builder, x)), ops.Log(b.Builder, ops.AddConst(b.Builder, small, 1)))
	zeros := ops.Mul(b.Builder, b.One(ops.Affine{Scale: -1, Shift: 1}, y), x)
	return ops.SumToShape(b.Builder, ops.Add(b.Builder, zeros, ops.Mul(b.Builder, weights, off)), shape.Of())
}

// against applies an op to the model's output and the targets.
func against(op graph.Op) func(b *Builder, _ struct{}, output, target *graph.Value) *graph.Value {
	return func(b *Builder, _ struct{}, output, target *graph.Value) *graph.Value {
		return b.One(op, output, target)
	}
}
