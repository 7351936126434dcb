package models

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
)

// MLP is dense layers named layers.0, layers.1, … with the activation between
// them, as PyTorch names a stack of linear layers.
func MLP(hidden []int, activation string, outputs int, pos graph.Pos) Stack {
	first := Named{Name: "flatten", Block: "layers.0", Pos: pos, Layer: Flatten{}}
	return append(Stack{first}, denseLayers("layers.", 0, hidden, activation, outputs, pos)...)
}

// denseLayers are dense layers with the activation between them, whose names are a
// prefix and numbers.
func denseLayers(prefix string, first int, hidden []int, activation string, outputs int, pos graph.Pos) (ls Stack) {
	for i, units := range append(append([]int{}, hidden...), outputs) {
		l := Dense{Units: units, Activation: activation}
		if i == len(hidden) {
			l.Activation = ""
		}
		ls = append(ls, Named{Name: fmt.Sprintf("%s%d", prefix, first+i), Pos: pos, Layer: l})
	}
	return ls
}

// CNN is blocks of convolution (side kernel, same size), activation and 2×2
// max pooling, then dense layers: conv1, conv2, …, fc1, fc2, ….
func CNN(channels []int, kernel int, hidden []int, activation string, outputs int, pos graph.Pos) Stack {
	var ls Stack
	for i, ch := range channels {
		block := fmt.Sprintf("conv%d", i+1)
		ls = append(ls,
			Named{Name: block, Pos: pos, Layer: Conv2D{Channels: ch, Kernel: kernel, Padding: kernel / 2, Activation: activation}},
			Named{Name: fmt.Sprintf("pool%d", i+1), Block: block, Pos: pos, Layer: MaxPool{Kernel: 2}})
	}
	ls = append(ls, Named{Name: "flatten", Block: "fc1", Pos: pos, Layer: Flatten{}})
	return append(ls, denseLayers("fc", 1, hidden, activation, outputs, pos)...)
}

// GPTOptions are the sizes of a GPT-2.
type GPTOptions struct {
	Vocab, Context, Layers, Heads, Width int
	Dropout                              float64
	Untied                               bool
	Activation                           string // gelu_tanh unless given
}

// GPT is GPT-2 (Radford et al., "Language Models are Unsupervised Multitask
// Learners", 2019): parameter names, layout and initialisation as Hugging Face
// publishes it. Its blocks, for partitioning, are embed, block0, …, head.
func GPT(o GPTOptions, pos graph.Pos) Stack {
	const std = 0.02
	if o.Activation == "" {
		o.Activation = "gelu_tanh"
	}
	ls := Stack{
		Named{"wte", "embed", pos, Embedding{Vocab: o.Vocab, Width: o.Width, Std: std}},
		Named{"wpe", "embed", pos, PositionalEmbedding{Context: o.Context, Std: std}},
		Named{"drop", "embed", pos, Dropout{Rate: o.Dropout}},
	}
	for i := range o.Layers {
		ls = append(ls, gptBlock(o, i, std, pos)...)
	}
	head := Dense{Units: o.Vocab, NoBias: true, Std: std, Tied: "wte.weight"}
	if o.Untied {
		head.Tied = ""
	}
	return append(ls, Named{"ln_f", "head", pos, LayerNorm{}}, Named{"lm_head", "head", pos, head})
}

// gptBlock is x + attention(norm(x)), then x + mlp(norm(x)). The projections
// back into the residual stream start smaller, by 1/√(2·layers).
func gptBlock(o GPTOptions, i int, std float64, pos graph.Pos) Stack {
	h, block := fmt.Sprintf("h.%d.", i), fmt.Sprintf("block%d", i)
	small := std / math.Sqrt(2*float64(o.Layers))
	named := func(name string, l Layer) Named { return Named{h + name, block, pos, l} }
	return Stack{
		named("attn_residual", Residual{Stack{
			named("ln_1", LayerNorm{}),
			named("attn", Attention{Heads: o.Heads, Rate: o.Dropout, Std: std, ResidualStd: small}),
			named("attn.resid_dropout", Dropout{Rate: o.Dropout}),
		}}),
		named("mlp_residual", Residual{Stack{
			named("ln_2", LayerNorm{}),
			named("mlp.c_fc", Dense{Units: 4 * o.Width, InOut: true, Std: std, Activation: o.Activation}),
			named("mlp.c_proj", Dense{Units: o.Width, InOut: true, Std: small}),
			named("mlp.dropout", Dropout{Rate: o.Dropout}),
		}}),
	}
}
