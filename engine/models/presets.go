package models

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
)

// MLP is dense layers named layers.0, layers.1, … with the activation between
// them, as PyTorch names a stack of linear layers.
func MLP(hidden []int, activation string, outputs int, pos graph.Pos) []Layer {
	ls := []Layer{{Type: "flatten", Name: "flatten", Block: "layers.0", Pos: pos}}
	for i, units := range append(append([]int{}, hidden...), outputs) {
		l := Layer{Type: "dense", Name: fmt.Sprintf("layers.%d", i), Units: units, Activation: activation, Pos: pos}
		if i == len(hidden) {
			l.Activation = ""
		}
		ls = append(ls, l)
	}
	return ls
}

// CNN is blocks of convolution (side kernel, same size), activation and 2×2
// max pooling, then dense layers: conv1, conv2, …, fc1, fc2, ….
func CNN(channels []int, kernel int, hidden []int, activation string, outputs int, pos graph.Pos) []Layer {
	var ls []Layer
	for i, ch := range channels {
		block := fmt.Sprintf("conv%d", i+1)
		ls = append(ls,
			Layer{Type: "conv2d", Name: block, Channels: ch, Kernel: kernel, Padding: kernel / 2, Activation: activation, Pos: pos},
			Layer{Type: "max_pool", Name: fmt.Sprintf("pool%d", i+1), Block: block, Kernel: 2, Pos: pos})
	}
	ls = append(ls, Layer{Type: "flatten", Name: "flatten", Block: "fc1", Pos: pos})
	for i, units := range append(append([]int{}, hidden...), outputs) {
		l := Layer{Type: "dense", Name: fmt.Sprintf("fc%d", i+1), Units: units, Activation: activation, Pos: pos}
		if i == len(hidden) {
			l.Activation = ""
		}
		ls = append(ls, l)
	}
	return ls
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
func GPT(o GPTOptions, pos graph.Pos) []Layer {
	const std = 0.02
	if o.Activation == "" {
		o.Activation = "gelu_tanh"
	}
	ls := []Layer{
		{Type: "embedding", Name: "wte", Block: "embed", Vocab: o.Vocab, Width: o.Width, Std: std, Pos: pos},
		{Type: "positional_embedding", Name: "wpe", Block: "embed", Context: o.Context, Std: std, Pos: pos},
		{Type: "dropout", Name: "drop", Block: "embed", Rate: o.Dropout, Pos: pos},
	}
	for i := range o.Layers {
		ls = append(ls, gptBlock(o, i, std, pos)...)
	}
	head := Layer{Type: "dense", Name: "lm_head", Block: "head", Units: o.Vocab, NoBias: true, Std: std, Tied: "wte.weight", Pos: pos}
	if o.Untied {
		head.Tied = ""
	}
	return append(ls, Layer{Type: "layernorm", Name: "ln_f", Block: "head", Pos: pos}, head)
}

// gptBlock is x + attention(norm(x)), then x + mlp(norm(x)). The projections
// back into the residual stream start smaller, by 1/√(2·layers).
func gptBlock(o GPTOptions, i int, std float64, pos graph.Pos) []Layer {
	h, block := fmt.Sprintf("h.%d.", i), fmt.Sprintf("block%d", i)
	small := std / math.Sqrt(2*float64(o.Layers))
	return []Layer{
		{Type: "residual", Name: h + "attn_residual", Block: block, Pos: pos, Body: []Layer{
			{Type: "layernorm", Name: h + "ln_1", Pos: pos},
			{Type: "attention", Name: h + "attn", Heads: o.Heads, Rate: o.Dropout, Std: std, ResidualStd: small, Pos: pos},
			{Type: "dropout", Name: h + "attn.resid_dropout", Rate: o.Dropout, Pos: pos},
		}},
		{Type: "residual", Name: h + "mlp_residual", Block: block, Pos: pos, Body: []Layer{
			{Type: "layernorm", Name: h + "ln_2", Pos: pos},
			{Type: "dense", Name: h + "mlp.c_fc", Units: 4 * o.Width, InOut: true, Std: std, Activation: o.Activation, Pos: pos},
			{Type: "dense", Name: h + "mlp.c_proj", Units: o.Width, InOut: true, Std: small, Pos: pos},
			{Type: "dropout", Name: h + "mlp.dropout", Rate: o.Dropout, Pos: pos},
		}},
	}
}
