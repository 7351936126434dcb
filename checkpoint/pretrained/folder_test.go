package pretrained_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/pretrained"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

const fixture = "testdata/gpt2"

// parameters are the tensors of a GPT-2 as a model here names them.
func parameters(c pretrained.Config) (list []checkpoint.Tensor) {
	add := func(name string, dims ...int) {
		list = append(list, checkpoint.Tensor{Name: name, Meta: shape.F32(dims...), Role: "parameter"})
	}
	d := c.Width
	add("wte.weight", c.Vocab, d)
	add("wpe.weight", c.Context, d)
	for i := range c.Layers {
		h := fmt.Sprintf("h.%d.", i)
		for _, norm := range []string{"ln_1", "ln_2"} {
			add(h+norm+".weight", d)
			add(h+norm+".bias", d)
		}
		for _, x := range []struct {
			name    string
			in, out int
		}{{"attn.c_attn", d, 3 * d}, {"attn.c_proj", d, d}, {"mlp.c_fc", d, 4 * d}, {"mlp.c_proj", 4 * d, d}} {
			add(h+x.name+".weight", x.in, x.out)
			add(h+x.name+".bias", x.out)
		}
	}
	add("ln_f.weight", d)
	add("ln_f.bias", d)
	if !c.Tied {
		add("lm_head.weight", c.Vocab, d)
	}
	return list
}

// tensors are the contents of a file of weights as float32, by name.
func tensors(t testing.TB, path string) map[string][]float32 {
	f, err := safetensors.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]float32{}
	for _, x := range f.Tensors() {
		if all[x.Name], err = f.Float32(x.Name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// copyOf is a copy of the fixture.
func copyOf(t testing.TB) string {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(fixture)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readAll reads a folder's weights by the names of the model here.
func readAll(t testing.TB, dir string) map[string][]float32 {
	t.Helper()
	f, err := pretrained.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bytes := 0
	w, err := f.Weights(parameters(f.Config), func(n int) { bytes += n })
	if err != nil {
		t.Fatal(err)
	}
	all, size := map[string][]float32{}, 0
	for _, x := range w.Tensors() {
		v := make([]float32, x.Meta.Elems())
		half := len(v) / 2
		if err := errors.Join(w.Read(x.Name, 0, shape.Bytes(v[:half])), w.Read(x.Name, int64(4*half), shape.Bytes(v[half:]))); err != nil {
			t.Fatal(err)
		}
		all[x.Name] = v
		size += 4 * len(v)
	}
	if bytes != size {
		t.Errorf("told of %d bytes of %d", bytes, size)
	}
	return all
}

// same reports whether tensors have the same bits.
func same(a, b map[string][]float32) bool {
	bits := func(x, y []float32) bool {
		return slices.EqualFunc(x, y, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
	}
	return maps.EqualFunc(a, b, bits)
}

// store writes tensors as a file of a type.
func store(t testing.TB, path string, dtype safetensors.DType, all map[string][]float32, dims map[string][]int) {
	t.Helper()
	header, data := map[string]any{}, []byte(nil)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		from := len(data)
		for _, x := range all[name] {
			switch dtype {
			case safetensors.BF16:
				data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(x)>>16))
			case safetensors.F16:
				data = binary.LittleEndian.AppendUint16(data, half(x))
			default:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
			}
		}
		header[name] = map[string]any{"dtype": dtype, "shape": dims[name], "data_offsets": []int{from, len(data)}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, string(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))+string(text)+string(data))
}

// half is a float16 of a multiple of 1/8 between -16 and 16.
func half(x float32) uint16 {
	if x == 0 {
		return 0
	}
	b := math.Float32bits(x)
	return uint16(b>>16&0x8000 | (b>>23&0xff-112)<<10 | b>>13&0x3ff)
}

func dimsOf(c pretrained.Config) map[string][]int {
	dims := map[string][]int{}
	for _, x := range parameters(c) {
		dims[x.Name] = x.Meta.Shape
	}
	return dims
}

// The names of a GPT2Model, of a GPT2LMHeadModel, of several files and of links all
// mean the same tensors; attention's masks are passed over.
func TestWeightsByName(t *testing.T) {
	want := readAll(t, fixture)
	f, err := pretrained.Open(t.Context(), fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dims := dimsOf(f.Config)

	plain := copyOf(t)
	bare := maps.Clone(want)
	bare["h.0.attn.bias"], dims["h.0.attn.bias"] = make([]float32, 4), []int{1, 1, 2, 2}
	bare["h.1.attn.masked_bias"], dims["h.1.attn.masked_bias"] = []float32{-1e4}, []int{}
	bare["lm_head.weight"], dims["lm_head.weight"] = want["wte.weight"], dims["wte.weight"]
	store(t, filepath.Join(plain, "model.safetensors"), safetensors.F32, bare, dims)

	split := copyOf(t)
	where, parts := map[string]string{}, [2]map[string][]float32{{}, {}}
	for i, name := range slices.Sorted(maps.Keys(want)) {
		where[name] = fmt.Sprintf("model-0000%d-of-00002.safetensors", i%2+1)
		parts[i%2][name] = want[name]
	}
	for i, part := range parts {
		store(t, filepath.Join(split, fmt.Sprintf("model-0000%d-of-00002.safetensors", i+1)), safetensors.F32, part, dims)
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": where})
	if err := errors.Join(err, os.Remove(filepath.Join(split, "model.safetensors"))); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(split, "model.safetensors.index.json"), string(index))

	blobs, linked := copyOf(t), t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		if err := os.Symlink(filepath.Join(blobs, name), filepath.Join(linked, name)); err != nil {
			t.Skip(err)
		}
	}
	for name, dir := range map[string]string{"bare names": plain, "two files": split, "links": linked} {
		if !same(readAll(t, dir), want) {
			t.Errorf("%s: other tensors", name)
		}
	}
}

// Halves become the float32 of the same numbers.
func TestWeightsOfHalves(t *testing.T) {
	f, err := pretrained.Open(t.Context(), fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]float32{}
	for _, x := range parameters(f.Config) {
		v := make([]float32, x.Meta.Elems())
		for i := range v {
			v[i] = float32(i%64-32) / 8
		}
		all[x.Name] = v
	}
	for _, dtype := range []safetensors.DType{safetensors.F16, safetensors.BF16} {
		dir := copyOf(t)
		store(t, filepath.Join(dir, "model.safetensors"), dtype, all, dimsOf(f.Config))
		if !same(readAll(t, dir), all) {
			t.Errorf("%s: other numbers", dtype)
		}
	}
}

// A number that is not finite is named before the model answers with it.
func TestWeightsAreFinite(t *testing.T) {
	all := readAll(t, fixture)
	all["h.0.ln_1.bias"][2] = float32(math.NaN())
	dir := copyOf(t)
	c, _, err := pretrained.ParseConfig("c", []byte(fixtureConfig(t)))
	if err != nil {
		t.Fatal(err)
	}
	store(t, filepath.Join(dir, "model.safetensors"), safetensors.F32, all, dimsOf(c))
	f, err := pretrained.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := f.Weights(parameters(f.Config), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Read("h.0.ln_1.bias", 4, make([]byte, 12))
	if !errors.Is(err, pretrained.ErrFormat) || !strings.Contains(err.Error(), "tensor h.0.ln_1.bias F32[16]: a weight is not finite: element 2 is NaN") {
		t.Errorf("got %v", err)
	}
}

// An untied head is a tensor of its own.
func TestUntiedHead(t *testing.T) {
	dir, want := copyOf(t), readAll(t, fixture)
	config := strings.Replace(fixtureConfig(t), `"tie_word_embeddings": true`, `"tie_word_embeddings": false`, 1)
	put(t, filepath.Join(dir, "config.json"), config)
	c, _, err := pretrained.ParseConfig("c", []byte(config))
	if err != nil || c.Tied {
		t.Fatal(c, err)
	}
	want["lm_head.weight"] = slices.Repeat([]float32{.5}, c.Vocab*c.Width)
	store(t, filepath.Join(dir, "model.safetensors"), safetensors.F32, want, dimsOf(c))
	if !same(readAll(t, dir), want) {
		t.Error("other tensors")
	}
	put(t, filepath.Join(dir, "config.json"), fixtureConfig(t))
	if _, err := pretrained.Open(t.Context(), dir); !errors.Is(err, pretrained.ErrFormat) || !strings.Contains(err.Error(), "lm_head.weight differs from wte.weight, although tie_word_embeddings is true") {
		t.Errorf("a tied model with another head: %v", err)
	}
}

// What is missing, damaged or of another model is named.
func TestOpenRefuses(t *testing.T) {
	want := readAll(t, fixture)
	c, _, err := pretrained.ParseConfig("c", []byte(fixtureConfig(t)))
	if err != nil {
		t.Fatal(err)
	}
	weights := func(change func(all map[string][]float32, dims map[string][]int)) func(dir string) {
		return func(dir string) {
			all, dims := maps.Clone(want), dimsOf(c)
			change(all, dims)
			store(t, filepath.Join(dir, "model.safetensors"), safetensors.F32, all, dims)
		}
	}
	replace := func(name, old, text string) func(dir string) {
		return func(dir string) {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !strings.Contains(string(b), old) {
				t.Fatal(name, err)
			}
			put(t, filepath.Join(dir, name), strings.Replace(string(b), old, text, 1))
		}
	}
	remove := func(name string) func(dir string) {
		return func(dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, x := range []struct {
		change func(dir string)
		want   string
	}{
		{remove("config.json"), "it has no config.json"},
		{remove("model.safetensors"), "it has no weights, neither model.safetensors nor model.safetensors.index.json"},
		{remove("tokenizer.json"), "put the model's tokenizer.json there"},
		{func(dir string) {
			remove("model.safetensors")(dir)
			put(t, filepath.Join(dir, "pytorch_model.bin"), "PK")
		}, "save the model again in Python with safe_serialization=True"},
		{replace("config.json", `"n_layer": 2`, `"n_layer": 9999`), "it has 2 layers, but n_layer of config.json is 9999"},
		{replace("config.json", `"n_layer": 2`, `"n_layer": 1000000000`), "expected a whole number from 1 to 10000"},
		{replace("config.json", `"vocab_size": 300`, `"vocab_size": 299`), "vocab_size: 299, but the tokenizer has 300 tokens"},
		{replace("config.json", `"vocab_size": 300`, `"vocab_size": 4000000`), "transformer.wte.weight is [300,16], config.json makes it [4000000,16]"},
		{replace("config.json", `"n_embd": 16`, `"n_embd": 1000000`), "h.0.attn.c_attn.bias is [48], config.json makes it [3000000]"},
		{replace("tokenizer.json", `"BPE"`, `"Unigram"`), "tokenizer.json"},
		{weights(func(all map[string][]float32, _ map[string][]int) {
			delete(all, "h.1.mlp.c_fc.bias")
			delete(all, "wpe.weight")
		}),
			"h.1.mlp.c_fc.bias is missing; wpe.weight is missing"},
		{weights(func(all map[string][]float32, _ map[string][]int) { delete(all, "wte.weight") }), "wte.weight is missing"},
		{weights(func(all map[string][]float32, dims map[string][]int) {
			all["score.weight"], dims["score.weight"] = []float32{1}, []int{1}
		}), "score.weight is no tensor of a GPT-2"},
		{weights(func(all map[string][]float32, dims map[string][]int) {
			all["transformer.wpe.weight"], dims["transformer.wpe.weight"] = []float32{1}, []int{1}
		}), "are the same tensor of the model"},
		{weights(func(all map[string][]float32, dims map[string][]int) { dims["wpe.weight"] = []int{16, 32} }), "wpe.weight is [16,32], config.json makes it [32,16]"},
		{func(dir string) {
			if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 40000); err != nil {
				t.Fatal(err)
			}
		}, "model.safetensors"},
		{func(dir string) { put(t, filepath.Join(dir, "model.safetensors"), strings.Repeat("\xff", 64)) }, "it states a header of"},
		{func(dir string) {
			put(t, filepath.Join(dir, "model.safetensors"), "version https://git-lfs.github.com/spec/v1\n")
		}, "git lfs pull"},
		{func(dir string) {
			remove("model.safetensors")(dir)
			if err := os.Symlink("nowhere", filepath.Join(dir, "model.safetensors")); err != nil {
				put(t, filepath.Join(dir, "model.safetensors.index.json"), `{"weight_map": {"a": "nowhere"}}`)
			}
		}, "no such file"},
		{func(dir string) { put(t, filepath.Join(dir, "config.json"), strings.Repeat(" ", 2<<20)) }, "it has more than 1 MiB"},
	} {
		dir := copyOf(t)
		x.change(dir)
		f, err := pretrained.Open(t.Context(), dir)
		if err == nil {
			_, err = f.Weights(parameters(f.Config), nil)
			err = errors.Join(err, f.Close())
		}
		if !errors.Is(err, pretrained.ErrFormat) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, want %q", err, x.want)
		}
	}
	if _, err := pretrained.Open(t.Context(), filepath.Join(fixture, "config.json")); !errors.Is(err, pretrained.ErrFormat) || !strings.Contains(err.Error(), "it is a file") {
		t.Errorf("a file: %v", err)
	}
	if _, err := pretrained.Open(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}
