package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

func init() {
	builtInLoss(LossType[struct{}]{Name: "mse", Doc: "For numbers.", Pads: true, Loss: against(ops.MSE{})})
	builtInLoss(LossType[struct{}]{
		Name: "bce", Doc: "For numbers from 0 to 1.", Bits: true, Applies: []string{"sigmoid", "softmax"},
		Loss: against(ops.BCE{}), Correct: against(ops.BinaryCorrect{}),
		Answer: func(b *Builder, _ struct{}, output *graph.Value) *graph.Value {
			return ops.Sigmoid(b.Builder, output)
		},
	})
}

// against applies an op to the model's output and the targets.
func against(op graph.Op) func(b *Builder, _ struct{}, output, target *graph.Value) *graph.Value {
	return func(b *Builder, _ struct{}, output, target *graph.Value) *graph.Value {
		return b.One(op, output, target)
	}
}
