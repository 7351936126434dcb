package pretrained

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Config is a model's config.json.
type Config struct {
	Family     string // GPT2 or another
	Vocab      int    // rows of the table of tokens
	Context    int    // the most positions
	Width      int
	Layers     int
	Heads      int
	Activation string // as configs name it
	Dropout    float64
	Tied       bool        // the head's weight is the table of tokens
	Llama      LlamaConfig // but GPT-2's

	// The tokens around a text; nil: there are none. ParseConfig leaves them out. GPT-2's
	// begins with the one that ends it, unless it has another.
	BeginOfText, EndOfText *uint32
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

// option is a key of a config.json that is true or false.
type option struct {
	key   string
	value bool
}

// fixed are options that must have one value where they are given.
var fixed = []option{
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
	if family := o.checkKind(); family != GPT2 {
		c = o.llama(family)
		return c, nil, o.err
	}
	c = Config{
		Family: GPT2, Vocab: o.whole("vocab_size", 50257, mostVocab), Context: o.whole("n_positions", 1024, mostContext),
		Width: o.whole("n_embd", 768, mostWidth), Layers: o.whole("n_layer", 12, mostLayers), Heads: o.whole("n_head", 12, mostWidth),
		Activation: o.named("activation_function", "gelu_new", activations), Tied: o.flag("tie_word_embeddings", true),
	}
	if c.Width%c.Heads != 0 {
		o.fail("n_head", "%d heads do not divide n_embd, which is %d: copy the config again", c.Heads, c.Width)
	}
	o.checkOptions(c)
	c.Dropout, notes = o.dropout()
	return c, notes, o.err
}

// checkKind refuses models of other families, and gives the model's.
func (o *object) checkKind() string {
	kind, known := "", strings.Join(families[:len(families)-1], ", ")+" or "+families[len(families)-1]
	o.read("model_type", "text", &kind)
	switch {
	case kind == "":
		o.fail("model_type", "it is missing; expected %s", known)
	case !IsFamily(kind):
		o.fail("model_type", "%.40q is not supported; import a model of type %s", kind, known)
	}
	if o.has("quantization_config") {
		o.fail("quantization_config", "quantized weights are not supported; import the model that they were made from")
	}
	if o.err != nil {
		return GPT2
	}
	return kind
}

// named reads a name of transformers, and gives the one of configs.
func (o *object) named(key, byDefault string, names map[string][]string) string {
	given := byDefault
	o.read(key, "text", &given)
	var known []string
	for ours, theirs := range names {
		if slices.Contains(theirs, given) {
			return ours
		}
		known = append(known, theirs...)
	}
	slices.Sort(known)
	o.fail(key, "%q is not supported; import a model with one of %s", given, strings.Join(known, ", "))
	return ""
}

// checkFixed refuses options with another value than their one.
func (o *object) checkFixed(options []option) {
	for _, f := range options {
		if got := o.flag(f.key, f.value); got != f.value {
			o.fail(f.key, "%v is not supported; import a model with %v", got, f.value)
		}
	}
}

// checkOptions refuses options that the model here does not have.
func (o *object) checkOptions(c Config) {
	o.checkFixed(fixed)
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
	if c.Family != GPT2 {
		return c.llamaJSON()
	}
	names, ok := activations[c.Activation]
	if !ok {
		return nil, fmt.Errorf("activation %q: expected one of %v", c.Activation, slices.Sorted(maps.Keys(activations)))
	}
	return indented(map[string]any{
		"activation_function": names[0], "architectures": []string{"GPT2LMHeadModel"}, "model_type": "gpt2", "torch_dtype": "float32",
		"vocab_size": c.Vocab, "n_positions": c.Context, "n_embd": c.Width, "n_layer": c.Layers, "n_head": c.Heads, "n_inner": nil,
		"attn_pdrop": float(c.Dropout), "embd_pdrop": float(c.Dropout), "resid_pdrop": float(c.Dropout),
		"bos_token_id": cmp.Or(c.BeginOfText, c.EndOfText), "eos_token_id": c.EndOfText,
		"initializer_range": 0.02, "layer_norm_epsilon": json.RawMessage("1e-05"), "tie_word_embeddings": c.Tied, "use_cache": true,
		"reorder_and_upcast_attn": false, "scale_attn_by_inverse_layer_idx": false, "scale_attn_weights": true,
	})
}
