package configs

import (
	"math"
	"slices"
)

// RopeScaling stretches the frequencies of rotary positions: see ops.RotaryScaling.
type RopeScaling struct {
	Pos       Pos
	Type      string // default, linear, dynamic or llama3
	Factor    float64
	Low, High float64 // llama3: turns
	Original  int     // llama3, dynamic: positions before it; 0: dynamic: those of the model
}

// Llama is what presets of Llama's family have besides the fields of Model.
type Llama struct {
	KVHeads, HeadSize int // 0: Heads, and Width by Heads
	Inner             int // numbers between the projections of a gated layer; 0: about 8/3 of Width
	Eps, Theta, Std   float64
	Scaling           RopeScaling
	Bias, GateBias    bool
	Windowed          bool // qwen2: Window counts
	Window            int  // mistral, qwen2: positions that one sees; 0: all
	WindowFrom        int  // qwen2: the first block that Window counts in
}

// above is a number above 0.
var above = real{min: 0, max: math.MaxFloat64, over: true}

// factor is by how much frequencies are stretched.
var factor = &key{name: "factor", kind: real{min: 1, max: math.MaxFloat64}, at: at(func(s *RopeScaling) *float64 { return &s.Factor }), required: true,
	doc: "how many times longer texts are than those that the model was trained on"}

var ropeScalingSection = chosen(&section{
	doc: "How rotary positions are stretched for texts longer than those that the model was trained on.",
	pos: posOf(func(s *RopeScaling) *Pos { return &s.Pos }),
	selector: &key{name: "rope_type", at: at(func(s *RopeScaling) *string { return &s.Type }), def: "default",
		doc: "which frequencies change; it decides the other keys"},
	variants: []variant{
		{"default", "None does.", nil},
		{"linear", "All are divided by `factor` (Chen et al., 2023).", []*key{factor}},
		{"dynamic", "The base grows, the more the longer `max_position_embeddings` is than the original (NTK-aware; bloc97, 2023).", []*key{factor,
			{name: "original_max_position_embeddings", kind: counting, at: at(func(s *RopeScaling) *int { return &s.Original }), def: "0",
				doc: "positions that the model was trained on; 0: `max_position_embeddings`, so that nothing changes"},
		}},
		{"llama3", "Low frequencies are divided by `factor`, those between in part (Grattafiori et al., 2024).", []*key{factor,
			{name: "low_freq_factor", kind: above, at: at(func(s *RopeScaling) *float64 { return &s.Low }), required: true, doc: "turns in the original positions below which a frequency is low"},
			{name: "high_freq_factor", kind: above, at: at(func(s *RopeScaling) *float64 { return &s.High }), required: true, doc: "turns above which it is high; above `low_freq_factor`"},
			{name: "original_max_position_embeddings", kind: positive, at: at(func(s *RopeScaling) *int { return &s.Original }), required: true, doc: "positions that the model was trained on"},
		}},
	},
})

// inLlama is a field of Model.Llama.
func inLlama[F any](f func(*Llama) *F) func(any) any {
	return at(func(m *Model) *F { return f(&m.Llama) })
}

// llamaKeys are the keys of a preset of Llama's family, as Hugging Face's config.json has
// them; more are its own.
func llamaKeys(tied string, more ...*key) []*key {
	return append([]*key{
		{name: "num_hidden_layers", kind: whole{1, 10000}, at: at(func(m *Model) *int { return &m.Blocks }), def: "4", doc: "number of blocks"},
		{name: "hidden_size", kind: positive, at: at(func(m *Model) *int { return &m.Width }), def: "128", doc: "numbers that represent a token"},
		{name: "intermediate_size", kind: counting, at: inLlama(func(l *Llama) *int { return &l.Inner }), def: "0",
			doc: "numbers between the projections of a gated layer; 0: 8/3 of `hidden_size`, rounded up to a multiple of 32"},
		{name: "num_attention_heads", kind: positive, at: at(func(m *Model) *int { return &m.Heads }), def: "4", doc: "heads of queries; must divide `hidden_size` unless `head_dim` is given"},
		{name: "num_key_value_heads", kind: counting, at: inLlama(func(l *Llama) *int { return &l.KVHeads }), def: "0", doc: "heads of keys and values; must divide `num_attention_heads`. 0: as many"},
		{name: "head_dim", kind: counting, at: inLlama(func(l *Llama) *int { return &l.HeadSize }), def: "0", doc: "numbers of a head; even. 0: `hidden_size` by `num_attention_heads`"},
		{name: "hidden_act", kind: enum{"silu", "gelu", "gelu_pytorch_tanh"}, at: at(func(m *Model) *string { return &m.Activation }), def: "silu", doc: "applied to the gate"},
		{name: "max_position_embeddings", kind: counting, at: at(func(m *Model) *int { return &m.Context }), def: "0", doc: "the most positions; 0: `data.context`, or 64 for data without it"},
		{name: "vocab_size", kind: counting, at: at(func(m *Model) *int { return &m.Vocab }), def: "0", doc: "tokens in the table of tokens; 0: as the data needs"},
		{name: "rms_norm_eps", kind: above, at: inLlama(func(l *Llama) *float64 { return &l.Eps }), def: "1e-06", doc: "added to the mean square"},
		{name: "rope_theta", kind: above, at: inLlama(func(l *Llama) *float64 { return &l.Theta }), def: "10000", doc: "base of the frequencies of rotary positions"},
		{name: "rope_scaling", kind: ropeScalingSection, at: inLlama(func(l *Llama) *RopeScaling { return &l.Scaling })},
		{name: "initializer_range", kind: above, at: inLlama(func(l *Llama) *float64 { return &l.Std }), def: "0.02", doc: "deviation of the first weights"},
		{name: "attention_dropout", kind: belowOne, at: at(func(m *Model) *float64 { return &m.Dropout }), def: "0", doc: "probability that a probability of attention is dropped in training"},
		{name: "tie_word_embeddings", kind: boolean{}, at: at(func(m *Model) *bool { return &m.Tied }), def: tied, doc: "the head uses the table of tokens as its weight"},
	}, more...)
}

var (
	llamaBias = key{name: "attention_bias", kind: boolean{}, at: inLlama(func(l *Llama) *bool { return &l.Bias }), def: "false",
		doc: "add a learned number to each query, key and value, and to each output of attention"}
	slidingWindow = key{name: "sliding_window", kind: counting, at: inLlama(func(l *Llama) *int { return &l.Window }), def: "4096",
		doc: "positions that one sees, itself among them; 0: all before it"}
)

// llamaPresets are the presets of Llama's family.
var llamaPresets = []variant{
	{"llama", "Llama, with the keys of Hugging Face's `config.json`; parameters are named as there, without `model.`.", llamaKeys("false", &llamaBias,
		&key{name: "mlp_bias", kind: boolean{}, at: inLlama(func(l *Llama) *bool { return &l.GateBias }), def: "false", doc: "add a learned number to each output of the gated layers' projections"})},
	{"mistral", "Mistral: Llama with a sliding window (Jiang et al., \"Mistral 7B\", 2023).", llamaKeys("false", &slidingWindow)},
	{"qwen2", "Qwen2: Llama with biases of queries, keys and values (Yang et al., \"Qwen2 Technical Report\", 2024).", llamaKeys("false",
		optional(*with(llamaBias, "add a learned number to each query, key and value"), "true"),
		&key{name: "use_sliding_window", kind: boolean{}, at: inLlama(func(l *Llama) *bool { return &l.Windowed }), def: "false", doc: "the blocks from `max_window_layers` on have a sliding window"},
		&slidingWindow,
		&key{name: "max_window_layers", kind: counting, at: inLlama(func(l *Llama) *int { return &l.WindowFrom }), def: "28", doc: "blocks without a sliding window"})},
}

// IsLlama reports whether the preset is one of Llama's family.
func (m *Model) IsLlama() bool {
	return slices.ContainsFunc(llamaPresets, func(v variant) bool { return v.name == m.Preset })
}
