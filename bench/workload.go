package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// ErrWorkload is the cause of an error about a workload that does not exist.
var ErrWorkload = errors.New("no such workload")

// Workload is a model and a batch size. It trains by AdamW.
type Workload struct {
	Name       string
	About      string // the model, in one line
	Batch      int    // samples in a step
	Tokens     int    // tokens in a sample; 0 if samples are not made of tokens
	Classes    int    // targets and tokens are 0 to Classes-1
	Parameters int64  // elements of all weights
	Input      shape.Meta
	Target     shape.Meta
	Layers     models.Stack

	// Of a config: what it says of a step; zero of the others.
	Microbatches int
	Precision    string

	own *own // of a config, in place of Layers; nil of the others
}

// seed is the seed of weights and batches.
const seed = 1

// ring is the number of losses, one a step, that the device keeps.
const ring = 64

var workloads = []Workload{
	{
		Name: "mlp", About: "dense 784-512-256-10, relu", Batch: 128, Classes: 10, Parameters: 535_818,
		Input: shape.F32(784), Target: shape.I32(),
		Layers: models.MLP([]int{512, 256}, "relu", 10, graph.Pos{}),
	},
	{
		Name: "cnn", About: "conv 32 and 64 of 3x3 with 2x2 pools, dense 128-10, on 28x28", Batch: 64, Classes: 10, Parameters: 421_642,
		Input: shape.F32(1, 28, 28), Target: shape.I32(),
		Layers: models.CNN([]int{32, 64}, 3, []int{128}, "relu", 10, graph.Pos{}),
	},
	gpt("gpt-nano", 12, 64, 809_856, models.GPTOptions{Layers: 4, Heads: 4, Width: 128, Context: 64, Vocab: 65}),
	gpt("gpt-small", 8, 256, 10_770_816, models.GPTOptions{Layers: 6, Heads: 6, Width: 384, Context: 256, Vocab: 65}),
	llama("llama-small", 8, 256, 9_467_136, models.LlamaOptions{Layers: 6, Heads: 6, KVHeads: 2, Width: 384, Hidden: 1024, Context: 256, Vocab: 65, Eps: 1e-6, Theta: 10000}),
	{
		Name: "resnet-18", About: "resnet of 18 layers with the stem for small images, 10 classes of images of 32x32", Batch: 32, Classes: 10, Parameters: 11_173_962,
		Input: shape.F32(3, 32, 32), Target: shape.I32(),
		Layers: models.ResNet(models.ResNetOptions{Depth: 18, Small: true, Outputs: 10}, graph.Pos{}),
	},
	{
		Name: "vit-tiny", About: "vit of 12 layers, 3 heads, width 192, 1,000 classes of images of 224x224 in patches of 16x16", Batch: 8, Classes: 1000, Parameters: 5_717_416,
		Input: shape.F32(3, 224, 224), Target: shape.I32(),
		Layers: models.ViT(models.ViTOptions{Patch: 16, Layers: 12, Heads: 3, Width: 192, Outputs: 1000}, graph.Pos{}),
	},
	gpt("gpt2", 4, 64, 124_439_808, models.GPTOptions{Layers: 12, Heads: 12, Width: 768, Context: 1024, Vocab: 50257}),
}

// gpt is a workload of a GPT-2 with a tied head, on samples of tokens.
func gpt(name string, batch, tokens int, parameters int64, o models.GPTOptions) Workload {
	return Workload{
		Name:  name,
		About: fmt.Sprintf("gpt of %d layers, %d heads, width %d, %s of %s positions, vocabulary %s", o.Layers, o.Heads, o.Width, units.Thousands(tokens), units.Thousands(o.Context), units.Thousands(o.Vocab)),
		Batch: batch, Tokens: tokens, Classes: o.Vocab, Parameters: parameters,
		Input: shape.I32(tokens), Target: shape.I32(tokens),
		Layers: models.GPT(o, graph.Pos{}),
	}
}

// llama is a workload of a model of Llama's family, on samples of tokens.
func llama(name string, batch, tokens int, parameters int64, o models.LlamaOptions) Workload {
	return Workload{
		Name:  name,
		About: fmt.Sprintf("llama of %d layers, %d heads of queries and %d of keys, width %d, %s positions, vocabulary %s", o.Layers, o.Heads, o.KVHeads, o.Width, units.Thousands(tokens), units.Thousands(o.Vocab)),
		Batch: batch, Tokens: tokens, Classes: o.Vocab, Parameters: parameters,
		Input: shape.I32(tokens), Target: shape.I32(tokens),
		Layers: models.Llama(o, graph.Pos{}),
	}
}

// Workloads lists all workloads, small ones first. The caller may change the
// list, but not the layers in it.
func Workloads() []Workload { return slices.Clone(workloads) }

// checkMicrobatches refuses a number that does not divide the batch.
func (w Workload) checkMicrobatches(n int) error {
	if w.Batch%n != 0 {
		return fmt.Errorf("%w: --microbatches %d: the batch of %s has %d samples: give a divisor", ErrOptions, n, w.Name, w.Batch)
	}
	return nil
}

// Lookup finds a workload by name.
func Lookup(name string) (Workload, error) {
	var names []string
	for _, w := range workloads {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return Workload{}, fmt.Errorf("%w: %q: take one of %s", ErrWorkload, name, strings.Join(names, ", "))
}

// Graph is one training step of the workload in that many equal microbatches,
// in float32 or with bfloat16 in dense layers' products.
func (w Workload) Graph(microbatches int, bf16 bool) (*graph.Graph, error) {
	by, positions := adamW, 0
	if w.own != nil {
		by, positions = w.own.optim, w.own.positions
	}
	return models.Train(w.spec(bf16), by, models.Size{Positions: positions, Microbatch: w.Batch / microbatches, Microbatches: microbatches, Batch: w.Batch, Ring: ring})
}

// adamW learns slowly. A model that has learned its few batches by heart has
// gradients too small for normal floats, and arithmetic on those takes longer.
var adamW = optim.Spec{
	Name:     "adamw",
	Schedule: ops.LearningRate{Schedule: "constant", Base: 1e-5},
}

// spec is the workload's model, in float32 or with bfloat16 in dense layers' products.
func (w Workload) spec(bf16 bool) models.Spec {
	if w.own != nil {
		spec := w.own.spec
		spec.BF16 = bf16
		return spec
	}
	return models.Spec{Input: w.Input, Target: w.Target, Layers: w.Layers, Loss: "cross_entropy", Seed: seed, BF16: bf16}
}
