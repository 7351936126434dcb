package pretrained_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/pretrained"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/golden"
)

// published are config.json files as they are published, but for what says nothing of the
// model, with what they say.
var published = map[string]struct {
	text string
	want pretrained.Config
}{
	"llama-3.2-1b": {`{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001,
  "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 128256}`,
		pretrained.Config{Family: "llama", Vocab: 128256, Context: 131072, Width: 2048, Layers: 16, Heads: 32, Activation: "silu", Tied: true, Llama: pretrained.LlamaConfig{
			KVHeads: 8, HeadSize: 64, Inner: 8192, Eps: 1e-5, Theta: 500000, Std: 0.02, Rope: pretrained.Rope{Type: "llama3", Factor: 32, Low: 1, High: 4, Original: 8192}}}},
	"llama-2-7b": {`{"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true, "vocab_size": 32000}`,
		pretrained.Config{Family: "llama", Vocab: 32000, Context: 4096, Width: 4096, Layers: 32, Heads: 32, Activation: "silu", Llama: pretrained.LlamaConfig{
			KVHeads: 32, HeadSize: 128, Inner: 11008, Eps: 1e-5, Theta: 10000, Std: 0.02, Rope: pretrained.Rope{Type: "default"}}}},
	"mistral-7b": {`{"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 32000}`,
		pretrained.Config{Family: "mistral", Vocab: 32000, Context: 32768, Width: 4096, Layers: 32, Heads: 32, Activation: "silu", Llama: pretrained.LlamaConfig{
			KVHeads: 8, HeadSize: 128, Inner: 14336, Eps: 1e-5, Theta: 10000, Std: 0.02, Rope: pretrained.Rope{Type: "default"}, Window: 4096}}},
	"qwen2-0.5b": {`{"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896,
  "initializer_range": 0.02, "intermediate_size": 4864, "max_position_embeddings": 131072, "max_window_layers": 24, "model_type": "qwen2", "num_attention_heads": 14,
  "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936}`,
		pretrained.Config{Family: "qwen2", Vocab: 151936, Context: 131072, Width: 896, Layers: 24, Heads: 14, Activation: "silu", Tied: true, Llama: pretrained.LlamaConfig{
			KVHeads: 2, HeadSize: 64, Inner: 4864, Eps: 1e-6, Theta: 1000000, Std: 0.02, Rope: pretrained.Rope{Type: "default"}, Bias: true, Window: 131072, WindowFrom: 24}}},
}

// Published configs are read, and written with the same keys and values.
func TestLlamaConfigs(t *testing.T) {
	for name, x := range published {
		c, notes, err := pretrained.ParseConfig(name, []byte(x.text))
		if err != nil || len(notes) > 0 || c != x.want {
			t.Errorf("%s: %+v, %v, %v, want %+v", name, c, notes, err, x.want)
		}
		text, err := c.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if back, _, err := pretrained.ParseConfig(name, text); err != nil || back != c {
			t.Errorf("%s came back as %+v, %v", name, back, err)
		}
		var got, want map[string]any
		if err := errors.Join(json.Unmarshal(text, &got), json.Unmarshal([]byte(x.text), &want)); err != nil {
			t.Fatal(err)
		}
		for key, v := range want {
			switch key {
			case "bos_token_id", "eos_token_id", "torch_dtype", "pretraining_tp": // of the tokenizer, of the file, of training
				continue
			}
			if g, ok := got[key]; !ok || fmt.Sprint(g) != fmt.Sprint(v) {
				t.Errorf("%s: %s is written as %v, was %v", name, key, g, v)
			}
		}
	}
	c := published["llama-3.2-1b"].want
	begin, end := uint32(128000), uint32(128001)
	c.BeginOfText, c.EndOfText = &begin, &end
	text, err := c.JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/llama.json", string(text))
}

// Keys that are not given have transformers' values.
func TestLlamaDefaults(t *testing.T) {
	for family, want := range map[string]pretrained.Config{
		"llama":   {Vocab: 32000, Context: 2048, Llama: pretrained.LlamaConfig{Inner: 11008, KVHeads: 32}},
		"mistral": {Vocab: 32000, Context: 131072, Llama: pretrained.LlamaConfig{Inner: 14336, KVHeads: 8, Window: 4096}},
		"qwen2":   {Vocab: 151936, Context: 32768, Llama: pretrained.LlamaConfig{Inner: 22016, KVHeads: 32, Window: 4096, WindowFrom: 28, Bias: true}},
	} {
		want.Family, want.Width, want.Layers, want.Heads, want.Activation = family, 4096, 32, 32, "silu"
		l := &want.Llama
		l.HeadSize, l.Eps, l.Theta, l.Std, l.Rope.Type = 128, 1e-6, 10000, 0.02, "default"
		if c, _, err := pretrained.ParseConfig("c", fmt.Appendf(nil, `{"model_type": %q}`, family)); err != nil || c != want {
			t.Errorf("%s: %+v, %v, want %+v", family, c, err, want)
		}
	}
	c, _, err := pretrained.ParseConfig("c", []byte(`{"model_type": "mistral", "sliding_window": null, "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 7.0}}`))
	if err != nil || c.Llama.Window != 0 || c.Llama.Theta != 7 || c.Llama.Rope != (pretrained.Rope{Type: "dynamic", Factor: 4}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// What is not supported is named with what is.
func TestLlamaConfigRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`"rope_scaling": {"rope_type": "yarn", "factor": 4.0}`: `rope_scaling: rope_type "yarn" is not supported; import a model with default, linear, dynamic or llama3`,
		`"rope_parameters": {"rope_type": "longrope"}`:         `rope_parameters: rope_type "longrope" is not supported`,
		`"rope_parameters": {"partial_rotary_factor": 0.5}`:    "rope_parameters: partial_rotary_factor: 0.5 is not supported; import a model with 1",
		`"partial_rotary_factor": 0.5`:                         "partial_rotary_factor: 0.5 is not supported; import a model with 1",
		`"rope_scaling": {"type": "linear"}`:                   "rope_scaling: factor: got 0, expected a number from 1",
		`"rope_scaling": {"type": "llama3", "factor": 8.0}`:    "original_max_position_embeddings: got 0",
		`"rope_scaling": {"type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8, "low_freq_factor": 4, "high_freq_factor": 4}`: "low_freq_factor: got 4 and high_freq_factor 4",
		`"rope_scaling": 3`:                   "rope_scaling: got 3, expected a mapping",
		`"rope_theta": 0`:                     "rope_theta: got 0, expected a number above 0",
		`"rms_norm_eps": "small"`:             `rms_norm_eps: got "small"`,
		`"hidden_act": "relu"`:                `hidden_act: "relu" is not supported; import a model with one of gelu, gelu_new`,
		`"num_key_value_heads": 5`:            "num_key_value_heads: 5 do not divide num_attention_heads, which is 32",
		`"num_attention_heads": 33`:           "num_attention_heads: 33 heads do not divide hidden_size, which is 4096",
		`"head_dim": 7`:                       "head_dim: heads of 7 numbers are not supported",
		`"use_sliding_window": 1`:             "use_sliding_window: got 1, expected true or false",
		`"max_window_layers": -1`:             "max_window_layers: got -1",
		`"layer_types": ["linear_attention"]`: `layer_types: "linear_attention" in layer 0 is not supported; import a model with full_attention, as its other keys say`,
		`"add_cross_attention": true`:         "add_cross_attention: true is not supported",
		`"quantization_config": {}`:           "quantized weights are not supported",
		`"num_hidden_layers": 1000000000`:     "num_hidden_layers: got 1000000000, expected a whole number from 1 to 10000",
	} {
		_, _, err := pretrained.ParseConfig("c", []byte(`{"model_type": "qwen2", `+text+`}`))
		if !errors.Is(err, pretrained.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Weights are read in pieces: no memory is taken for a large tensor.
func TestWeightsMemory(t *testing.T) {
	const width, vocab, piece = 512, 16000, 1 << 20
	dir := t.TempDir()
	want := []checkpoint.Tensor{{Name: "embed_tokens.weight", Meta: shape.F32(vocab, width), Role: "parameter"}, {Name: "layers.0.mlp.up_proj.weight", Meta: shape.F32(width, width), Role: "parameter"}}
	header, at := map[string]any{}, 0
	for _, x := range want {
		n := 2 * x.Meta.Elems()
		header["model."+x.Name] = map[string]any{"dtype": "F16", "shape": x.Meta.Shape, "data_offsets": []int{at, at + n}}
		at += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	tokens, err := os.ReadFile(filepath.Join(fixture, "tokenizer.json"))
	err = errors.Join(err,
		os.WriteFile(path, append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), 0o644),
		os.Truncate(path, int64(8+len(text)+at)), // the weights are zeros
		os.WriteFile(filepath.Join(dir, "tokenizer.json"), tokens, 0o644),
		os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "llama", "num_hidden_layers": 1, "vocab_size": 16000}`), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	f, err := pretrained.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dst := make([]byte, piece)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w, err := f.Weights(want, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range w.Tensors() {
		for off := int64(0); off < x.Meta.Bytes(); off += piece {
			if err := w.Read(x.Name, off, dst[:min(piece, x.Meta.Bytes()-off)]); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > vocab*width {
		t.Errorf("%d bytes were allocated for weights of %d", took, 2*at)
	}
}
