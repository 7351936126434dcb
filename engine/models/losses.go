package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// lossType is a loss.
type lossType struct {
	classes  bool     // targets are classes (i32), and the output has an axis of them; otherwise numbers (f32)
	anyShape bool     // the output's shape need not be the targets'
	applies  []string // ops that it begins with, the first by itself: no model should end in one
	loss     func(c *context, output, target *graph.Value) *graph.Value
	correct  func(c *context, output, target *graph.Value) *graph.Value // counts right answers; nil if there are none
	answer   func(c *context, output *graph.Value) *graph.Value         // what predict gives; nil: the output
	pads     bool                                                       // padding counts nothing: a class of -1, or equal numbers
}

// targets is the targets that a loss takes, in words.
func (t lossType) targets() string {
	if t.classes {
		return "classes (i32)"
	}
	return "numbers (f32)"
}

// losses is the table of losses, by name. [RegisterLoss] adds those of a program.
var losses = map[string]lossType{
	"cross_entropy": {
		classes: true, applies: []string{"softmax"}, pads: true,
		loss: func(c *context, output, target *graph.Value) *graph.Value {
			return c.b.One(ops.CrossEntropy{Padded: c.lengths != nil}, output, target)
		},
		correct: func(c *context, output, target *graph.Value) *graph.Value {
			return c.b.One(ops.Correct{Padded: c.lengths != nil}, output, target)
		},
		answer: func(c *context, output *graph.Value) *graph.Value { return ops.SoftmaxOf(c.b, output) },
	},
	"mse": {loss: against(ops.MSE{}), pads: true},
	"bce": {
		applies: []string{"sigmoid", "softmax"},
		loss:    against(ops.BCE{}),
		correct: against(ops.BinaryCorrect{}),
		answer:  func(c *context, output *graph.Value) *graph.Value { return ops.Sigmoid(c.b, output) },
	},
}

// against applies an op to the model's output and the targets.
func against(op graph.Op) func(c *context, output, target *graph.Value) *graph.Value {
	return func(c *context, output, target *graph.Value) *graph.Value { return c.b.One(op, output, target) }
}

// Classifies reports whether the model has an accuracy.
func (s Spec) Classifies() bool { return losses[s.Loss].correct != nil }
