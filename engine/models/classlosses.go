package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

// ClassWeightKeys are the keys of losses whose classes may count differently.
type ClassWeightKeys struct {
	// ClassWeights are of a config. In Go, [Spec.ClassWeights] has the numbers that follow.
	ClassWeights registry.Weights `yaml:"class_weights,omitempty" words:"balanced" min:"1e-6" max:"1e6" doc:"how much each class counts in training, by its name, such as '{yes:5,no:1}'; a class without a number counts 1. 'balanced': n/(k·count), for a class with count of the n training samples, and k classes. The loss is divided by the sum of the weights, as PyTorch does; validation losses are without"`
}

// CrossEntropyKeys are the keys of the loss cross_entropy.
type CrossEntropyKeys struct {
	ClassWeightKeys
	Smoothing float64 `yaml:"label_smoothing,omitempty" min:"0" below:"1" doc:"share of each target that training spreads over all classes alike, so that the model is less sure; validation losses, and what follows from them, are without"`
}

// FocalKeys are the keys of the loss focal.
type FocalKeys struct {
	ClassWeightKeys
	Gamma float64 `yaml:"gamma" min:"0" doc:"how much less answers count of which the model is sure; 0: as in 'cross_entropy'"`
}

func init() {
	builtInLoss(LossType[CrossEntropyKeys]{Name: "cross_entropy", Doc: "For classes.", Classes: true, Applies: []string{"softmax"}, Pads: true,
		Loss: crossEntropy, Weight: sumOfWeights[CrossEntropyKeys], Correct: correct[CrossEntropyKeys], Answer: softmax[CrossEntropyKeys]})
	builtInLoss(LossType[FocalKeys]{Name: "focal", Doc: "For classes, some of them rare: cross_entropy, times (1 - p)^gamma for the true class's probability p.",
		Classes: true, Applies: []string{"softmax"}, Pads: true, Defaults: FocalKeys{Gamma: 2},
		Loss: focal, Weight: sumOfWeights[FocalKeys], Correct: correct[FocalKeys], Answer: softmax[FocalKeys]})
}

// crossEntropy is, in training with smoothing, the sum of -w·log softmax over the classes, where w is 1 - s
// for the true class, and s/C more for each of the C classes. A target with a share of each class has that in place of 1. With
// weights of classes, w is multiplied by that of its class.
func crossEntropy(b *Builder, k CrossEntropyKeys, output, target *graph.Value) *graph.Value {
	weights, soft := classWeights(b, k.ClassWeightKeys, output), target.Meta.DType == shape.Float32
	if weights == nil && !soft && (k.Smoothing == 0 || !b.Training()) {
		return b.One(ops.CrossEntropy{Padded: b.Padded()}, output, target)
	}
	w := target
	if !soft {
		w = oneHot(b, output, target)
	}
	if k.Smoothing > 0 {
		counts := ops.Sum(b.Builder, w, true, output.Meta.Shape.Rank()-1) // 0 of padding
		w = ops.Add(b.Builder, ops.ScaleBy(b.Builder, w, 1-k.Smoothing), ops.ScaleBy(b.Builder, counts, k.Smoothing/float64(output.Meta.Shape.Dim(-1))))
	}
	if weights != nil {
		w = ops.Mul(b.Builder, w, weights)
	}
	return ops.Neg(b.Builder, ops.SumToShape(b.Builder, ops.Mul(b.Builder, w, ops.LogSoftmaxOf(b.Builder, output)), shape.Of()))
}

// focal is the sum of -(1-p)^gamma·log p over the rows, where p is the probability of the true
// class, and each row is multiplied by the weight of that class. Of padding, log p is 0.
func focal(b *Builder, k FocalKeys, output, target *graph.Value) *graph.Value {
	const least = 1e-12 // keeps log(1-p) finite where p is 1
	last := output.Meta.Shape.Rank() - 1
	truth := oneHot(b, output, target)
	logP := ops.Sum(b.Builder, ops.Mul(b.Builder, truth, ops.LogSoftmaxOf(b.Builder, output)), false, last)
	rest := b.One(ops.Affine{Scale: -1, Shift: 1}, ops.Exp(b.Builder, logP))
	rest = ops.AddConst(b.Builder, ops.Relu(b.Builder, rest), least)
	weight := ops.Exp(b.Builder, ops.ScaleBy(b.Builder, ops.Log(b.Builder, rest), k.Gamma))
	if weights := classWeights(b, k.ClassWeightKeys, output); weights != nil {
		weight = ops.Mul(b.Builder, weight, ops.Sum(b.Builder, ops.Mul(b.Builder, truth, weights), false, last))
	}
	return ops.Neg(b.Builder, ops.SumToShape(b.Builder, ops.Mul(b.Builder, weight, logP), shape.Of()))
}

// oneHot is 1 for the class of each row and 0 for the others, in the shape of the logits; of
// padding, all are 0. It is minus the gradient of a cross-entropy whose softmax is 0: that op
// refuses wrong classes and knows padding, on every device.
func oneHot(b *Builder, logits, target *graph.Value) *graph.Value {
	const far = 1000 // exp(-far) is 0
	zeros := ops.Const(b.Builder, logits.Meta, 0)
	lse := ops.Const(b.Builder, shape.Meta{DType: shape.Float32, Shape: target.Meta.Shape}, far)
	one := ops.Const(b.Builder, shape.F32(), 1)
	return ops.Neg(b.Builder, b.One(ops.CrossEntropyGrad{Padded: b.Padded()}, zeros, target, lse, one))
}

// correct counts the right answers. Of targets with shares, an answer is right if it names a class with the largest share. One that
// finds several classes likeliest alike names all of them, and is wrong if any of them is.
func correct[Keys any](b *Builder, _ Keys, output, target *graph.Value) *graph.Value {
	if target.Meta.DType != shape.Float32 {
		return b.One(ops.Correct{Padded: b.Padded()}, output, target)
	}
	last := output.Meta.Shape.Rank() - 1
	largest := func(x *graph.Value) *graph.Value { return ops.Equal(b.Builder, x, ops.Max(b.Builder, x, true, last)) }
	named := largest(output)
	right := ops.Mul(b.Builder, named, largest(target))
	anyRight := ops.Max(b.Builder, right, false, last)
	anyWrong := ops.Max(b.Builder, ops.Sub(b.Builder, named, right), false, last)
	return ops.SumToShape(b.Builder, ops.Relu(b.Builder, ops.Sub(b.Builder, anyRight, anyWrong)), shape.Of())
}

func softmax[Keys any](b *Builder, _ Keys, output *graph.Value) *graph.Value {
	return ops.SoftmaxOf(b.Builder, output)
}
