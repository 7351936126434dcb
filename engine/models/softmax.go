package models

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Softmax makes probabilities of the last axis.
type Softmax struct{}

// LogSoftmax is the logarithm of Softmax.
type LogSoftmax struct{}

func init() {
	builtIn(LayerType[Softmax]{Name: "softmax", Takes: Features, Positionwise: true,
		Doc: "Softmax over the last axis. Not before loss cross_entropy, which applies it itself."})
	builtIn(LayerType[LogSoftmax]{Name: "log_softmax", Takes: Features, Positionwise: true,
		Doc: "Logarithm of softmax over the last axis. Before loss cross_entropy it changes nothing."})
}

// Build appends the layer.
func (Softmax) Build(b *Builder, x *graph.Value) *graph.Value { return ops.SoftmaxOf(b.Builder, x) }

// Build appends the layer.
func (LogSoftmax) Build(b *Builder, x *graph.Value) *graph.Value {
	return ops.LogSoftmaxOf(b.Builder, x)
}
