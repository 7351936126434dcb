package models

import (
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

// weighted are keys that embed ClassWeightKeys.
type weighted interface{ classWeightKeys() ClassWeightKeys }

func (k ClassWeightKeys) classWeightKeys() ClassWeightKeys { return k }

// classWeights are the weights f32[C] of the C classes of an output; nil: each counts 1.
func classWeights(b *Builder, k ClassWeightKeys, output *graph.Value) *graph.Value {
	return lossWeights(b, "class_weights", k.ClassWeights, output.Meta.Shape.Dim(-1))
}

// lossWeights are n weights that the spec gives; nil: each counts 1, as in every graph but that of
// training. It refuses a key of the loss that asks for weights that the spec lacks.
func lossWeights(b *Builder, key string, asked registry.Weights, n int) *graph.Value {
	given := b.c.spec.ClassWeights
	switch {
	case !b.Training():
		return nil
	case given == nil:
		if asked.Given() {
			b.Failf("%s follow from the data, which is not known here: give them as numbers, in Spec.ClassWeights", key)
		}
		return nil
	}
	weights := slices.Repeat([]float64{1}, n)
	copy(weights, given)
	for i, w := range weights {
		if !(w > 0) || math.IsInf(w, 0) {
			b.Failf("weight %d of Spec.ClassWeights is %v: give a number above 0", i, w)
			return nil
		}
	}
	return constants(b, weights)
}

// constants is a vector of numbers: neighbours that are equal are made as one.
func constants(b *Builder, numbers []float64) *graph.Value {
	const pieces = 8 // of a concat
	equal := 1
	for equal < len(numbers) && numbers[equal] == numbers[0] {
		equal++
	}
	if equal == len(numbers) {
		return ops.Const(b.Builder, shape.F32(equal), numbers[0])
	}
	var parts []*graph.Value
	each := (len(numbers) + pieces - 1) / pieces
	for from := 0; from < len(numbers); from += each {
		parts = append(parts, constants(b, numbers[from:min(len(numbers), from+each)]))
	}
	return ops.ConcatOf(b.Builder, 0, parts...)
}

// sumOfWeights sums the weights of the classes of the targets; nil where each class counts 1.
func sumOfWeights[Keys weighted](b *Builder, k Keys, output, target *graph.Value) *graph.Value {
	weights := classWeights(b, k.classWeightKeys(), output)
	if weights == nil {
		return nil
	}
	return ops.SumToShape(b.Builder, ops.Mul(b.Builder, oneHot(b, output, target), weights), shape.Of())
}
