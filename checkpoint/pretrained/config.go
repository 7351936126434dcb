package pretrained

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Config is a GPT-2's config.json.
type Config struct {
	Vocab      int // rows of the table of tokens
	Context    int // rows of the table of positions
	Width      int
	Layers     int
	Heads      int
	Activation string // as configs name it
	Dropout    float64
	Tied       bool    // the head's weight is the table of tokens
	EndOfText  *uint32 // the token that begins and ends a text; nil: there is none. ParseConfig leaves it out
}

// The largest numbers of a config. The largest models in use have less than a
// hundredth.
const (
	mostVocab   = 1 << 22
	mostContext = 1 << 24
	mostWidth   = 1 << 20
	mostLayers  = 10000
)

// epsilon is the number that the model's norms add to the variance.
const epsilon = 1e-5

// activations are the names of transformers, by those of configs. The first is
// written.
var activations = map[string][]string{
	"gelu_tanh": {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"},
	"gelu":      {"gelu", "gelu_python"},
	"relu":      {"relu"},
	"silu":      {"silu", "swish"},
	"sigmoid":   {"sigmoid"},
	"tanh":      {"tanh"},
}

// fixed are options that must have one value where they are given.
var fixed = []struct {
	key   string
	value bool
}{
	{"scale_attn_weights", true},
	{"scale_attn_by_inverse_layer_idx", false},
	{"reorder_and_upcast_attn", false},
	{"add_cross_attention", false},
	{"is_encoder_decoder", false},
}

// ParseConfig reads a config.json, whose path errors name. notes say how the model
// is other than its user may expect.
func ParseConfig(path string, text []byte) (c Config, notes []string, err error) {
	o, err := readObject(path, text)
	if err != nil {
		return c, nil, err
	}
	o.checkKind()
	c = Config{
		Vocab: o.whole("vocab_size", 50257, mostVocab), Context: o.whole("n_positions", 1024, mostContext),
		Width: o.whole("n_embd", 768, mostWidth), Layers: o.whole("n_layer", 12, mostLayers), Heads: o.whole("n_head", 12, mostWidth),
		Activation: o.activation(), Tied: true,
	}
	o.read("tie_word_embeddings", "true or false", &c.Tied)
	if c.Width%c.Heads != 0 {
		o.fail("n_head", "%d heads do not divide n_embd, which is %d: copy the config again", c.Heads, c.Width)
	}
	o.checkOptions(c)
	c.Dropout, notes = o.dropout()
	return c, notes, o.err
}

// checkKind refuses models other than a GPT-2.
func (o *object) checkKind() {
	var kind string
	o.read("model_type", "text", &kind)
	switch {
	case kind == "":
		o.fail("model_type", "it is missing; expected gpt2")
	case kind != "gpt2":
		o.fail("model_type", "%q is not supported; import a model of type gpt2", kind)
	}
	if o.has("quantization_config") {
		o.fail("quantization_config", "quantized weights are not supported; import the model that they were made from")
	}
}

// activation reads the name of the activation, as configs name it.
func (o *object) activation() string {
	given := "gelu_new"
	o.read("activation_function", "text", &given)
	var known []string
	for ours, names := range activations {
		if slices.Contains(names, given) {
			return ours
		}
		known = append(known, names...)
	}
	slices.Sort(known)
	o.fail("activation_function", "%q is not supported; import a model with one of %s", given, strings.Join(known, ", "))
	return ""
}

// checkOptions refuses options that the model here does not have.
func (o *object) checkOptions(c Config) {
	for _, f := range fixed {
		got := f.value
		o.read(f.key, "true or false", &got)
		if got != f.value {
			o.fail(f.key, "%v is not supported; import a model with %v", got, f.value)
		}
	}
	inner := 4 * c.Width
	o.read("n_inner", "a whole number or null", &inner)
	if inner != 4*c.Width {
		o.fail("n_inner", "%d is not supported; import a model with %d, four times n_embd", inner, 4*c.Width)
	}
	eps := epsilon
	o.read("layer_norm_epsilon", "a number", &eps)
	if eps != epsilon {
		o.fail("layer_norm_epsilon", "%v is not supported; import a model with %v", eps, epsilon)
	}
}

// dropout reads the three rates, which are one here.
func (o *object) dropout() (rate float64, notes []string) {
	const usual = 0.1
	rate = o.share("resid_pdrop", usual)
	for _, key := range []string{"embd_pdrop", "attn_pdrop"} {
		if other := o.share(key, usual); other != rate {
			notes = append(notes, fmt.Sprintf("%s: %s is %v and resid_pdrop %v: model.dropout is one number for all, %v", o.path, key, other, rate, rate))
		}
	}
	return rate, notes
}

// JSON is the config.json.
func (c Config) JSON() ([]byte, error) {
	names, ok := activations[c.Activation]
	if !ok {
		return nil, fmt.Errorf("activation %q: expected one of %v", c.Activation, slices.Sorted(maps.Keys(activations)))
	}
	return indented(map[string]any{
		"activation_function": names[0], "architectures": []string{"GPT2LMHeadModel"}, "model_type": "gpt2", "torch_dtype": "float32",
		"vocab_size": c.Vocab, "n_positions": c.Context, "n_embd": c.Width, "n_layer": c.Layers, "n_head": c.Heads, "n_inner": nil,
		"attn_pdrop": c.Dropout, "embd_pdrop": c.Dropout, "resid_pdrop": c.Dropout,
		"bos_token_id": c.EndOfText, "eos_token_id": c.EndOfText,
		"initializer_range": 0.02, "layer_norm_epsilon": json.RawMessage("1e-05"), "tie_word_embeddings": c.Tied, "use_cache": true,
		"reorder_and_upcast_attn": false, "scale_attn_by_inverse_layer_idx": false, "scale_attn_weights": true,
	})
}
