package pretrained

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The values of Config.Family: config.json's model_type.
const (
	GPT2    = "gpt2"
	Llama   = "llama"
	Mistral = "mistral"
	Qwen2   = "qwen2"
)

// LlamaConfig is what the config.json of Llama's family has besides the fields of Config.
type LlamaConfig struct {
	KVHeads, HeadSize int // of attention
	Inner             int // intermediate_size
	Eps, Theta, Std   float64
	Rope              Rope
	Bias, GateBias    bool // llama, qwen2: of attention; llama: of the gated layers
	Windowed          bool // qwen2: Window counts
	Window            int  // mistral, qwen2: positions that one sees; 0: all
	WindowFrom        int  // qwen2: the first block that Window counts in
}

// Rope is the scaling of rotary positions.
type Rope struct {
	Type              string // default, linear, dynamic or llama3
	Factor, Low, High float64
	Original          int // llama3: positions before it
}

// llamaDefaults are what transformers has for keys that are left out.
var llamaDefaults = map[string]Config{
	Llama:   {Vocab: 32000, Context: 2048, Llama: LlamaConfig{Inner: 11008}},
	Mistral: {Vocab: 32000, Context: 131072, Llama: LlamaConfig{Inner: 14336, KVHeads: 8, Window: 4096}},
	Qwen2:   {Vocab: 151936, Context: 32768, Llama: LlamaConfig{Inner: 22016, KVHeads: 32, Window: 4096, WindowFrom: 28, Bias: true}},
}

// gateNames are the names of transformers for activations of gates, by those of configs. The
// first is written.
var gateNames = map[string][]string{"silu": {"silu", "swish"}, "gelu": {"gelu"}, "gelu_pytorch_tanh": {"gelu_pytorch_tanh", "gelu_new"}}

// llama reads the config of one of Llama's family.
func (o *object) llama(family string) Config {
	d := llamaDefaults[family]
	c := Config{
		Family: family, Vocab: o.whole("vocab_size", d.Vocab, mostVocab), Context: o.whole("max_position_embeddings", d.Context, mostContext),
		Width: o.whole("hidden_size", 4096, mostWidth), Layers: o.whole("num_hidden_layers", 32, mostLayers), Heads: o.whole("num_attention_heads", 32, mostWidth),
		Activation: o.named("hidden_act", "silu", gateNames), Dropout: o.share("attention_dropout", 0), Tied: o.flag("tie_word_embeddings", false),
	}
	l := &c.Llama
	*l = LlamaConfig{
		Inner: o.whole("intermediate_size", d.Llama.Inner, mostWidth), KVHeads: o.whole("num_key_value_heads", or(d.Llama.KVHeads, c.Heads), mostWidth),
		Eps: o.above("rms_norm_eps", 1e-6), Std: o.above("initializer_range", 0.02), Bias: d.Llama.Bias,
	}
	o.heads(&c)
	o.rope(l)
	switch family {
	case Llama:
		l.Bias, l.GateBias = o.flag("attention_bias", false), o.flag("mlp_bias", false)
	case Mistral:
		l.Window = o.window(d.Llama.Window)
	case Qwen2:
		l.Windowed, l.Window = o.flag("use_sliding_window", false), o.window(d.Llama.Window)
		l.WindowFrom = d.Llama.WindowFrom
		o.read("max_window_layers", "a whole number from 0", &l.WindowFrom)
		if l.WindowFrom < 0 || l.WindowFrom > mostLayers {
			o.fail("max_window_layers", "got %d, expected a whole number from 0 to %d", l.WindowFrom, mostLayers)
		}
	}
	o.checkLayerTypes(c)
	o.checkFixed(fixedLlama)
	return c
}

// fixedLlama are options that must have one value where they are given.
var fixedLlama = []option{{"is_encoder_decoder", false}, {"add_cross_attention", false}, {"use_mrope", false}}

// or is n, or m if n is 0.
func or(n, m int) int {
	if n == 0 {
		return m
	}
	return n
}

// heads reads the size of a head, and checks that heads fit.
func (o *object) heads(c *Config) {
	l := &c.Llama
	if !o.has("head_dim") {
		if c.Width%c.Heads != 0 {
			o.fail("num_attention_heads", "%d heads do not divide hidden_size, which is %d: copy the config again", c.Heads, c.Width)
			return
		}
	}
	l.HeadSize = o.whole("head_dim", max(1, c.Width/c.Heads), mostWidth)
	switch {
	case c.Heads%l.KVHeads != 0:
		o.fail("num_key_value_heads", "%d do not divide num_attention_heads, which is %d: copy the config again", l.KVHeads, c.Heads)
	case l.HeadSize%2 != 0:
		o.fail("head_dim", "heads of %d numbers are not supported; import a model with an even head_dim", l.HeadSize)
	}
}

// window reads sliding_window; 0 where it is null.
func (o *object) window(byDefault int) int {
	if v, ok := o.keys["sliding_window"]; ok && string(v.raw) == "null" {
		return 0
	}
	return o.whole("sliding_window", byDefault, mostContext)
}

// ropeJSON is rope_scaling, and rope_parameters of later versions of transformers.
type ropeJSON struct {
	Type     string   `json:"rope_type"`
	Older    string   `json:"type"`
	Theta    *float64 `json:"rope_theta"`
	Partial  *float64 `json:"partial_rotary_factor"`
	Factor   float64  `json:"factor"`
	Low      float64  `json:"low_freq_factor"`
	High     float64  `json:"high_freq_factor"`
	Original int      `json:"original_max_position_embeddings"`
}

// rope reads how positions turn.
func (o *object) rope(l *LlamaConfig) {
	key, r := "rope_scaling", ropeJSON{}
	if o.has("rope_parameters") {
		key = "rope_parameters"
	}
	o.read(key, "a mapping", &r)
	l.Theta = o.above("rope_theta", 10000)
	if share := o.above("partial_rotary_factor", 1); share != 1 {
		o.fail("partial_rotary_factor", "%v is not supported; import a model with 1", share)
	}
	if r.Theta != nil {
		l.Theta = *r.Theta
	}
	if r.Type == "" {
		r.Type = r.Older
	}
	l.Rope = Rope{Type: "default"}
	more := func(x float64, least float64) bool { return x >= least && x <= math.MaxFloat64 }
	switch {
	case !more(l.Theta, math.SmallestNonzeroFloat64):
		o.fail(key, "rope_theta: got %v, expected a number above 0", l.Theta)
	case r.Partial != nil && *r.Partial != 1:
		o.fail(key, "partial_rotary_factor: %v is not supported; import a model with 1", *r.Partial)
	case r.Type == "" || r.Type == "default":
	case r.Type != "linear" && r.Type != "dynamic" && r.Type != "llama3":
		o.fail(key, "rope_type %.40q is not supported; import a model with default, linear, dynamic or llama3", r.Type)
	case !more(r.Factor, 1):
		o.fail(key, "factor: got %v, expected a number from 1", r.Factor)
	case r.Original < 0 || r.Original > mostContext || r.Type == "llama3" && r.Original == 0:
		o.fail(key, "original_max_position_embeddings: got %d, expected a whole number from 1 to %d", r.Original, mostContext)
	case r.Type == "llama3" && (!more(r.Low, math.SmallestNonzeroFloat64) || !more(r.High, r.Low) || r.High == r.Low):
		o.fail(key, "low_freq_factor: got %v and high_freq_factor %v, expected numbers above 0, the second above the first", r.Low, r.High)
	case r.Type == "dynamic" && l.HeadSize < 4:
		o.fail(key, "rope_type dynamic is not supported with head_dim %d; import a model with at least 4", l.HeadSize)
	case r.Type == "llama3":
		l.Rope = Rope{r.Type, r.Factor, r.Low, r.High, r.Original}
	default: // dynamic begins behind max_position_embeddings, whatever else is given
		l.Rope = Rope{Type: r.Type, Factor: r.Factor}
	}
}

// checkLayerTypes refuses blocks that see other positions than the other keys say.
func (o *object) checkLayerTypes(c Config) {
	var types []string
	o.read("layer_types", "a list of words", &types)
	for i, got := range types {
		want := "full_attention"
		if w := c.Llama.Window; w > 0 && (c.Family == Mistral || c.Llama.Windowed && i >= c.Llama.WindowFrom) {
			want = "sliding_attention"
		}
		if got != want && i < c.Layers {
			o.fail("layer_types", "%.40q in layer %d is not supported; import a model with %s, as its other keys say", got, i, want)
			return
		}
	}
}

// llamaJSON is the config.json of one of Llama's family.
func (c Config) llamaJSON() ([]byte, error) {
	names, ok := gateNames[c.Activation]
	if !ok {
		return nil, fmt.Errorf("activation %q: expected silu, gelu or gelu_pytorch_tanh", c.Activation)
	}
	l := c.Llama
	m := map[string]any{
		"architectures": []string{architectures[c.Family]}, "model_type": c.Family, "torch_dtype": "float32", "use_cache": true,
		"vocab_size": c.Vocab, "max_position_embeddings": c.Context, "hidden_size": c.Width, "intermediate_size": l.Inner,
		"num_hidden_layers": c.Layers, "num_attention_heads": c.Heads, "num_key_value_heads": l.KVHeads, "head_dim": l.HeadSize,
		"hidden_act": names[0], "rms_norm_eps": l.Eps, "initializer_range": l.Std, "attention_dropout": float(c.Dropout), "tie_word_embeddings": c.Tied,
		"rope_theta": float(l.Theta), "rope_scaling": l.Rope.json(), "bos_token_id": c.BeginOfText, "eos_token_id": c.EndOfText,
	}
	var window any
	if l.Window > 0 {
		window = l.Window
	}
	switch c.Family {
	case Llama:
		m["attention_bias"], m["mlp_bias"] = l.Bias, l.GateBias
	case Mistral:
		m["sliding_window"] = window
	case Qwen2:
		m["use_sliding_window"], m["sliding_window"], m["max_window_layers"] = l.Windowed, window, l.WindowFrom
	}
	return indented(m)
}

// architectures are the classes of transformers.
var architectures = map[string]string{Llama: "LlamaForCausalLM", Mistral: "MistralForCausalLM", Qwen2: "Qwen2ForCausalLM"}

// json is rope_scaling; nil: null.
func (r Rope) json() any {
	if r.Type == "default" {
		return nil
	}
	m := map[string]any{"rope_type": r.Type, "factor": float(r.Factor)}
	if r.Type == "llama3" {
		m["low_freq_factor"], m["high_freq_factor"], m["original_max_position_embeddings"] = float(r.Low), float(r.High), r.Original
	}
	return m
}

// float is a number with a point, without which transformers takes it for no float.
func float(x float64) json.RawMessage {
	text := strconv.FormatFloat(x, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return json.RawMessage(text)
}

// families are the values of Config.Family, as messages list them.
var families = []string{GPT2, Llama, Mistral, Qwen2}

// IsFamily reports whether models of a family can be read and written.
func IsFamily(name string) bool { return slices.Contains(families, name) }
