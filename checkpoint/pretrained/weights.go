package pretrained

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// layout is how files of a family name tensors.
type layout struct {
	prefix string // before the names of all but the head; files of the model without its head have none
	table  string // the table of tokens
	other  *regexp.Regexp
	block  *regexp.Regexp
	layers string // the config's key of their number
	kind   string // of the model, in messages
}

// headName is the tensor of the head, in all families.
const headName = "lm_head.weight"

// layoutOf is that of a family.
func layoutOf(family string) layout {
	if family == GPT2 {
		return gpt2Layout
	}
	return llamaLayout
}

var (
	gpt2Layout = layout{
		"transformer.", "wte.weight", regexp.MustCompile(`^h\.\d+\.attn\.(bias|masked_bias)$`), // attention's masks, which are no weights
		regexp.MustCompile(`^h\.(\d+)\.`), "n_layer", "a GPT-2",
	}
	llamaLayout = layout{
		"model.", "embed_tokens.weight", regexp.MustCompile(`^(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq$`), // frequencies, which are no weights
		regexp.MustCompile(`^layers\.(\d+)\.`), "num_hidden_layers", "a model of Llama's family",
	}
)

// nameTensors finds the tensors by the names of the model here, and counts the
// layers: a config with many more would make a large model of nothing.
func (f *Folder) nameTensors() error {
	f.names = map[string]string{}
	in, layers := layoutOf(f.Config.Family), 0
	for _, t := range f.weights.Tensors() {
		name := strings.TrimPrefix(t.Name, in.prefix)
		if in.other.MatchString(name) {
			continue
		}
		if first, twice := f.names[name]; twice {
			return bad(f.path, "%s and %s are the same tensor of the model", first, t.Name)
		}
		f.names[name] = t.Name
		if m := in.block.FindStringSubmatch(name); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil && n < mostLayers {
				layers = max(layers, n+1)
			}
		}
	}
	if layers != f.Config.Layers {
		return bad(f.path, "it has %d layers, but %s of %s is %d: the two files are of different models, or one is incomplete", layers, in.layers, ConfigName, f.Config.Layers)
	}
	return f.checkHead(in.table)
}

// checkHead leaves out the head of a tied model, which some files have: it must be
// the table of tokens.
func (f *Folder) checkHead(tableName string) error {
	head, ok := f.names[headName]
	table, there := f.names[tableName]
	if !f.Config.Tied || !ok || !there {
		return nil
	}
	delete(f.names, headName)
	same, err := f.equal(head, table)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFormat, f.path, err)
	}
	if !same {
		return bad(f.path, "%s differs from %s, although tie_word_embeddings is true: to keep both, set tie_word_embeddings to false in %s", head, table, ConfigName)
	}
	return nil
}

// equal reports whether two tensors have the same contents.
func (f *Folder) equal(a, b string) (bool, error) {
	x, err := f.weights.Lookup(a)
	if err != nil {
		return false, err
	}
	y, err := f.weights.Lookup(b)
	if err != nil || x.DType != y.DType || !x.Shape.Equal(y.Shape) {
		return false, err
	}
	readA, err := f.weights.Reader(a)
	if err != nil {
		return false, err
	}
	readB, err := f.weights.Reader(b)
	if err != nil {
		return false, err
	}
	return sameBytes(readA, readB, x.Bytes())
}

// sameBytes compares the next n bytes of two readers.
func sameBytes(a, b io.Reader, n int64) (bool, error) {
	const piece = 1 << 20
	x, y := make([]byte, min(n, piece)), make([]byte, min(n, piece))
	for n > 0 {
		x, y = x[:min(n, piece)], y[:min(n, piece)]
		if _, err := io.ReadFull(a, x); err != nil {
			return false, err
		}
		if _, err := io.ReadFull(b, y); err != nil {
			return false, err
		}
		if !bytes.Equal(x, y) {
			return false, nil
		}
		n -= int64(len(x))
	}
	return true, nil
}

// Weights are the tensors of a model, read from a folder. It is a
// [checkpoint.Source], valid until the folder is closed.
type Weights struct {
	folder *Folder
	want   []checkpoint.Tensor
	read   func(bytes int) // hears how many bytes were read; nil: nobody
}

// Weights checks that the folder has exactly the tensors of a model, in their
// shapes. Float16 and bfloat16 are converted to float32, which changes no number.
// read hears of each piece how many bytes it has; nil for nobody.
func (f *Folder) Weights(want []checkpoint.Tensor, read func(bytes int)) (*Weights, error) {
	var wrong []string
	known := map[string]bool{}
	for _, t := range want {
		known[t.Name] = true
		name, ok := f.names[t.Name]
		if !ok {
			wrong = append(wrong, t.Name+" is missing")
			continue
		}
		have, err := f.weights.Lookup(name)
		switch {
		case err != nil:
			return nil, err
		case !have.Shape.Equal(t.Meta.Shape):
			wrong = append(wrong, fmt.Sprintf("%s is %v, %s makes it %v", name, have.Shape, ConfigName, t.Meta.Shape))
		case !have.DType.Float():
			wrong = append(wrong, fmt.Sprintf("%s has elements of type %s", name, have.DType))
		}
	}
	for name, inFile := range f.names {
		if !known[name] {
			wrong = append(wrong, inFile+" is no tensor of "+layoutOf(f.Config.Family).kind)
		}
	}
	if len(wrong) > 0 {
		return nil, bad(f.path, "%s", listed(wrong))
	}
	return &Weights{f, want, read}, nil
}

// listed is the first few of a list, sorted.
func listed(list []string) string {
	const most = 8
	slices.Sort(list)
	if n := len(list); n > most {
		return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), n-most)
	}
	return strings.Join(list, "; ")
}

// Tensors implements checkpoint.Source.
func (w *Weights) Tensors() []checkpoint.Tensor { return w.want }

// Read implements checkpoint.Source.
func (w *Weights) Read(name string, off int64, dst []byte) error {
	numbers := shape.View[float32](dst)
	err := w.folder.weights.ReadWeights(w.folder.names[name], int(off/4), numbers)
	switch {
	case errors.Is(err, safetensors.ErrFinite):
		return fmt.Errorf("%w: %w", ErrFormat, err)
	case err != nil:
		return err
	}
	if w.read != nil {
		w.read(len(dst))
	}
	return nil
}
