package pretrained_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/pretrained"
	"github.com/berth-ml/berth/internal/golden"
)

func fixtureConfig(t testing.TB) string {
	text, err := os.ReadFile("testdata/gpt2/config.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What is written has the keys that transformers writes, and reads back.
func TestConfigJSON(t *testing.T) {
	c, notes, err := pretrained.ParseConfig("config.json", []byte(fixtureConfig(t)))
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	want := pretrained.Config{Family: pretrained.GPT2, Vocab: 300, Context: 32, Width: 16, Layers: 2, Heads: 2, Activation: "gelu_tanh", Dropout: 0.1, Tied: true}
	if c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	end := uint32(299)
	c.EndOfText = &end
	text, err := c.JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/gpt2/config.json", string(text))
	for _, name := range []string{"gelu", "relu", "silu", "sigmoid", "tanh", "gelu_tanh"} {
		c := pretrained.Config{Family: pretrained.GPT2, Vocab: 1, Context: 1, Width: 1, Layers: 1, Heads: 1, Activation: name}
		text, err := c.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), `_pdrop": 0.0,`) != 3 { // 0 would be no float
			t.Errorf("rates of dropout without a point:\n%s", text)
		}
		if back, _, err := pretrained.ParseConfig("c", text); err != nil || back != c {
			t.Errorf("%+v came back as %+v, %v", c, back, err)
		}
	}
	if _, err := (pretrained.Config{Family: pretrained.GPT2, Activation: "softmax"}).JSON(); err == nil {
		t.Error("an unknown activation was written")
	}
}

// Keys that are not given have GPT-2's values.
func TestConfigDefaults(t *testing.T) {
	c, notes, err := pretrained.ParseConfig("c", []byte(`{"model_type": "gpt2", "n_inner": 3072, "embd_pdrop": 0.0, "task_specific_params": {"x": [1]}}`))
	want := pretrained.Config{Family: pretrained.GPT2, Vocab: 50257, Context: 1024, Width: 768, Layers: 12, Heads: 12, Activation: "gelu_tanh", Dropout: 0.1, Tied: true}
	if err != nil || c != want {
		t.Errorf("got %+v, %v, want %+v", c, err, want)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "embd_pdrop is 0 and resid_pdrop 0.1") {
		t.Errorf("notes %q", notes)
	}
}

// Each mistake is named by its place and key.
func TestConfigRefuses(t *testing.T) {
	const gpt2 = `"model_type": "gpt2"`
	for text, want := range map[string]string{
		``:                       "c:1:1: the file ends too early",
		`[]`:                     "c:1:1: expected a JSON object",
		`{"model_type": "gpt2"`:  "the file ends too early",
		"{\n \"n_head\": 1 2}":   "c:2:14: invalid character",
		`{` + gpt2 + `} x`:       "text after the object",
		`{` + gpt2 + `}{}`:       "text after the object",
		`{}`:                     "c: model_type: it is missing; expected gpt2, llama, mistral or qwen2",
		`{"model_type": "bert"}`: `c:1:2: model_type: "bert" is not supported; import a model of type gpt2, llama, mistral or qwen2`,
		`{"model_type": 7}`:      "model_type: got 7, expected text",
		"{" + gpt2 + ",\n  \"n_layer\": 1000000000}":             "c:2:3: n_layer: got 1000000000, expected a whole number from 1 to 10000",
		`{` + gpt2 + `, "n_head": 0}`:                            "n_head: got 0, expected a whole number from 1",
		`{` + gpt2 + `, "n_head": 5}`:                            "n_head: 5 heads do not divide n_embd, which is 768",
		`{` + gpt2 + `, "n_embd": 1e30}`:                         "n_embd: got 1e30, expected a whole number",
		`{` + gpt2 + `, "n_positions": "many"}`:                  `n_positions: got "many", expected`,
		`{` + gpt2 + `, "vocab_size": -3}`:                       "vocab_size: got -3",
		`{` + gpt2 + `, "activation_function": "quick_gelu"}`:    `activation_function: "quick_gelu" is not supported; import a model with one of gelu, gelu_fast, gelu_new`,
		`{` + gpt2 + `, "resid_pdrop": 1}`:                       "resid_pdrop: got 1, expected a number of at least 0 and below 1",
		`{` + gpt2 + `, "layer_norm_epsilon": 1e-6}`:             "layer_norm_epsilon: 1e-06 is not supported; import a model with 1e-05",
		`{` + gpt2 + `, "n_inner": 5}`:                           "n_inner: 5 is not supported; import a model with 3072",
		`{` + gpt2 + `, "scale_attn_weights": false}`:            "scale_attn_weights: false is not supported; import a model with true",
		`{` + gpt2 + `, "scale_attn_by_inverse_layer_idx":true}`: "scale_attn_by_inverse_layer_idx: true is not supported; import a model with false",
		`{` + gpt2 + `, "reorder_and_upcast_attn": true}`:        "reorder_and_upcast_attn: true is not supported",
		`{` + gpt2 + `, "add_cross_attention": true}`:            "add_cross_attention: true is not supported",
		`{` + gpt2 + `, "quantization_config": {"bits": 4}}`:     "quantization_config: quantized weights are not supported",
		`{` + gpt2 + `, "tie_word_embeddings": 1}`:               "tie_word_embeddings: got 1, expected true or false",
	} {
		_, _, err := pretrained.ParseConfig("c", []byte(text))
		if !errors.Is(err, pretrained.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// FuzzConfig: whatever the bytes, an error or a config within bounds, which reads
// back as it was.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(fixtureConfig(f)))
	f.Add([]byte(`{"model_type": "gpt2", "n_layer": 1e9}`))
	for _, x := range published {
		f.Add([]byte(x.text))
	}
	f.Add([]byte("{\"model_type\": \"gpt2\",\n\"n_embd\": 4, \"n_head\": 3}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := pretrained.ParseConfig("c", text)
		if err != nil {
			if !errors.Is(err, pretrained.ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if c.Layers > 10000 || c.Heads < 1 || c.Width%c.Heads != 0 && c.Llama.HeadSize == 0 || c.Vocab < 1 || c.Context < 1 {
			t.Fatalf("%+v", c)
		}
		again, err := c.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := pretrained.ParseConfig("c", again); err != nil || back != c {
			t.Fatalf("%+v came back as %+v, %v", c, back, err)
		}
	})
}
