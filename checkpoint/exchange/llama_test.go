package exchange_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// Sizes of the models of testdata's runs, and of the tokenizer that they get here.
const (
	llamaVocab, llamaTime = 23, 7
	llamaTokens           = 300
)

// llamaConfigs are the config.json of PyTorch's runs in engine/ops/ref/testdata, whose script
// says how they were made. ntk there is what dynamic is for longer texts, so qwen2's has the
// base that it comes to: 100·3^(6/4).
var llamaConfigs = map[string]string{
	"llama": `{"model_type": "llama", "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
		"max_position_embeddings": 32, "vocab_size": 300, "rms_norm_eps": 1e-05, "rope_theta": 100.0,
		"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}`,
	"mistral": `{"model_type": "mistral", "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 4,
		"max_position_embeddings": 32, "vocab_size": 300, "rms_norm_eps": 1e-05, "hidden_act": "gelu_pytorch_tanh", "sliding_window": 3, "tie_word_embeddings": true,
		"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}, "layer_types": ["sliding_attention", "sliding_attention"]}`,
	"qwen2": `{"model_type": "qwen2", "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 6,
		"max_position_embeddings": 32, "vocab_size": 300, "rms_norm_eps": 1e-05, "rope_theta": 519.6152422706632, "use_sliding_window": true, "sliding_window": 4, "max_window_layers": 1}`,
}

// llamaFolder is a folder as transformers saves it, of one of PyTorch's runs: its tables of
// tokens have more rows, of zeros, for a tokenizer with all bytes. mistral's weights are in two
// files, and llama's have the frequencies that old ones have.
func llamaFolder(t *testing.T, family string) (dir string, run *safetensors.File) {
	t.Helper()
	run, err := safetensors.Open(t.Context(), "../../engine/ops/ref/testdata/"+family+"-adamw.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	dir = t.TempDir()
	var entries []safetensors.Entry
	for _, x := range run.Tensors() {
		name, ok := strings.CutPrefix(x.Name, "init.")
		if !ok {
			continue
		}
		values, err := run.Float32(x.Name)
		if err != nil {
			t.Fatal(err)
		}
		dims := slices.Clone(x.Shape)
		if dims[0] == llamaVocab {
			dims[0] = llamaTokens
			values = append(values, make([]float32, dims.Elems()-len(values))...)
		}
		if name != "lm_head.weight" {
			name = "model." + name
		}
		entries = append(entries, safetensors.Entry{Name: name, Meta: shape.F32(dims...), Bytes: shape.Bytes(values)})
	}
	if family == "llama" {
		entries = append(entries, safetensors.Entry{Name: "model.layers.0.self_attn.rotary_emb.inv_freq", Meta: shape.F32(2), Bytes: shape.Bytes([]float32{1, 2})})
	}
	files := map[string][]safetensors.Entry{"model.safetensors": entries}
	if family == "mistral" {
		const first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
		half := len(entries) / 2
		files = map[string][]safetensors.Entry{first: entries[:half], second: entries[half:]}
		where := map[string]string{}
		for name, list := range files {
			for _, e := range list {
				where[e.Name] = name
			}
		}
		index, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": where})
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), index, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, list := range files {
		if err := safetensors.WriteFile(filepath.Join(dir, name), list, nil); err != nil {
			t.Fatal(err)
		}
	}
	tokens, err := os.ReadFile(filepath.Join(gpt2Folder, "tokenizer.json"))
	if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "tokenizer.json"), tokens, 0o644), os.WriteFile(filepath.Join(dir, "config.json"), []byte(llamaConfigs[family]), 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir, run
}

// Models of Llama's family have PyTorch's logits once they are imported, to 1e-4, and after
// they were exported and imported again, with the names and layouts of transformers.
func TestLlamaFolders(t *testing.T) {
	for _, family := range []string{"llama", "mistral", "qwen2"} {
		t.Run(family, func(t *testing.T) {
			from, ref := llamaFolder(t, family)
			first, out, second, again := filepath.Join(t.TempDir(), "r"), filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "r"), filepath.Join(t.TempDir(), "out")
			for i, x := range [][3]string{{from, first, out}, {out, second, again}} {
				m, err := berth.Import(t.Context(), x[0], x[1], berth.ImportOptions{})
				if err != nil || len(m.Notes) > 0 || m.Config.Model.Preset != family {
					t.Fatalf("import %d: %+v, %v", i, m, err)
				}
				llamaLogits(t, ref, x[1])
				e, err := berth.Export(t.Context(), berth.Weights{Dir: x[1]}, x[2])
				if err != nil || len(e.Notes) > 0 {
					t.Fatalf("export %d: %+v, %v", i, e, err)
				}
			}
			index := filepath.Join(from, "model.safetensors")
			if family == "mistral" {
				index += ".index.json"
			}
			sameTensors(t, index, filepath.Join(out, "model.safetensors"))
			for _, name := range []string{"config.json", "tokenizer.json", "model.safetensors"} {
				a, err := os.ReadFile(filepath.Join(out, name))
				b, err2 := os.ReadFile(filepath.Join(again, name))
				if err != nil || err2 != nil || string(a) != string(b) {
					t.Errorf("%s of the second export differs: %v %v", name, err, err2)
				}
			}
		})
	}
}

// llamaLogits compares the answers of a run for the beginnings of a text with PyTorch's logits.
func llamaLogits(t *testing.T, ref *safetensors.File, dir string) {
	t.Helper()
	ids, err := ref.Int32("input")
	logits, err2 := ref.Float32("logits")
	run, err3 := berth.OpenTrained(t.Context(), runConfig(t, dir, "cpu:1"), berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for _, n := range []int{1, 4, llamaTime} {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.bin", n))
		var text []byte
		for _, id := range ids[:n] {
			text = binary.LittleEndian.AppendUint16(text, uint16(id))
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		want := make([]float32, llamaTokens) // rows of zeros give zeros
		copy(want, logits[(n-1)*llamaVocab:n*llamaVocab])
		sameLogits(t, run, path, want, dir)
	}
}

// sameTensors compares two files of weights, but for the frequencies of rotary positions.
func sameTensors(t *testing.T, a, b string) {
	t.Helper()
	x, err := safetensors.Open(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	y, err := safetensors.Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	n := 0
	for _, want := range x.Tensors() {
		if strings.HasSuffix(want.Name, "inv_freq") {
			continue
		}
		n++
		got, err := y.Lookup(want.Name)
		if err != nil || got.DType != want.DType || !got.Shape.Equal(want.Shape) {
			t.Errorf("%v is %v, %v", want, got, err)
			continue
		}
		p, err := x.Float32(want.Name)
		q, err2 := y.Float32(want.Name)
		if err != nil || err2 != nil || !slices.Equal(p, q) {
			t.Errorf("%v has other numbers, %v %v", want, err, err2)
		}
	}
	if n != len(y.Tensors()) {
		t.Errorf("%d tensors, want %d", len(y.Tensors()), n)
	}
}

// What Hugging Face's layout cannot say is not exported.
func TestLlamaNotExported(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("To be, or not to be, that is the question.\n", 20)), 0o644); err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]string{
		`{preset: qwen2, attention_bias: false, hidden_size: 8, num_attention_heads: 2, num_hidden_layers: 1}`:                                                              "has model.attention_bias: false",
		`{preset: llama, hidden_size: 8, num_attention_heads: 2, num_hidden_layers: 1, rope_scaling: {rope_type: dynamic, factor: 2, original_max_position_embeddings: 4}}`: "with rope_type dynamic",
	} {
		c, err := configs.Parse("c", fmt.Appendf(nil, "data: {source: text, path: %s, context: 8, tokenizer: bytes}\nmodel: %s\ntrain: {steps: 1, batch: 2}\n", text, model), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		from := filepath.Join(t.TempDir(), "r")
		_, err = run.Train(t.Context(), berth.TrainOptions{Dir: from})
		if err := errors.Join(err, run.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := berth.Export(t.Context(), berth.Weights{Dir: from}, filepath.Join(t.TempDir(), "out")); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", model, err, want)
		}
	}
}
