package nets

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
)

// DeepGPT is a step of a GPT with more activations than weights, in one microbatch.
func DeepGPT() (*graph.Graph, error) {
	spec := models.Spec{
		Input: shape.I32(16), Target: shape.I32(16), Loss: "cross_entropy", Seed: 3,
		Layers: models.GPT(models.GPTOptions{Vocab: 7, Context: 16, Layers: 6, Heads: 2, Width: 8, Dropout: 0.1}, graph.Pos{}),
	}
	o := optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.01}}
	return models.Train(spec, o, models.Size{Microbatch: 8, Microbatches: 1, Batch: 8, Ring: 4})
}
