package models

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// LlamaOptions are the sizes of a model of Llama's family.
type LlamaOptions struct {
	Vocab, Context, Layers int
	Heads, KVHeads, Size   int // of attention; Size 0: Width/Heads
	Width, Hidden          int
	Window, Windowed       int // positions that one sees, in the blocks from Windowed on; 0: all
	Eps, Theta             float64
	Scaling                ops.RotaryScaling
	Dropout                float64 // of attention
	Std                    float64 // deviation of initial weights; 0: 0.02
	Activation             string  // silu unless given
	Untied                 bool
	Bias, OutBias          bool // of queries, keys and values; of attention's output
	GateBias               bool // of the gated layers
}

// Llama is a model of Llama's family (Touvron et al., "LLaMA: Open and Efficient Foundation
// Language Models", 2023; "Llama 2", 2023; Grattafiori et al., "The Llama 3 Herd of Models",
// 2024), with parameters named and laid out as Hugging Face publishes them, without "model."
// before their names. Its blocks, for partitioning, are embed, block0, …, head.
func Llama(o LlamaOptions, pos graph.Pos) Stack {
	if o.Std == 0 {
		o.Std = 0.02
	}
	ls := Stack{Named{"embed_tokens", "embed", pos, Embedding{Vocab: o.Vocab, Width: o.Width, Std: o.Std}}}
	for i := range o.Layers {
		ls = append(ls, llamaBlock(o, i, pos)...)
	}
	head := Dense{Units: o.Vocab, NoBias: true, Std: o.Std, Tied: "embed_tokens.weight"}
	if o.Untied {
		head.Tied = ""
	}
	return append(ls, Named{"norm", "head", pos, RMSNorm{Eps: o.Eps}}, Named{"lm_head", "head", pos, head})
}

// llamaBlock is x + attention(norm(x)), then x + gated(norm(x)).
func llamaBlock(o LlamaOptions, i int, pos graph.Pos) Stack {
	prefix, block := fmt.Sprintf("layers.%d.", i), fmt.Sprintf("block%d", i)
	named := func(name string, l Layer) Named { return Named{prefix + name, block, pos, l} }
	attention := GroupedAttention{
		Heads: o.Heads, KVHeads: o.KVHeads, Size: o.Size, Base: o.Theta, Scaling: o.Scaling, Context: o.Context,
		Bias: o.Bias, OutBias: o.OutBias, Rate: o.Dropout, Std: o.Std,
	}
	if i >= o.Windowed {
		attention.Window = o.Window
	}
	return Stack{
		named("attn_residual", Residual{Stack{
			named("input_layernorm", RMSNorm{Eps: o.Eps}),
			named("self_attn", attention),
		}}),
		named("mlp_residual", Residual{Stack{
			named("post_attention_layernorm", RMSNorm{Eps: o.Eps}),
			named("mlp", GatedMLP{Hidden: o.Hidden, Activation: o.Activation, Bias: o.GateBias, Std: o.Std}),
		}}),
	}
}
