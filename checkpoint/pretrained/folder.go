package pretrained

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
)

// The files of a folder.
const (
	ConfigName    = "config.json"
	WeightsName   = "model.safetensors"
	IndexName     = "model.safetensors.index.json" // of weights in several files
	TokenizerName = "tokenizer.json"
	settingsName  = "tokenizer_config.json"
	endsName      = "generation_config.json" // has the tokens that end a text, if they are several or have no name
	pickledName   = "pytorch_model.bin"
)

// mostConfig is the most bytes of a config.json.
const mostConfig = 1 << 20

// Folder is an open model.
type Folder struct {
	Config    Config
	Tokenizer *tokenizer.BPE
	Notes     []string // how the model is other than its user may expect

	weights *safetensors.File
	path    string            // of the weights
	names   map[string]string // in the weights, by those of the model here
}

// Open reads a folder's config and tokenizer, and the list of its tensors. Links to
// files are followed: transformers keeps its downloads so. The caller closes the
// folder.
func Open(ctx context.Context, dir string) (_ *Folder, err error) {
	dir = osfile.Resolve(dir)
	f := &Folder{}
	if f.Config, f.Notes, err = readConfig(dir); err != nil {
		return nil, err
	}
	if f.Tokenizer, err = readTokenizer(dir); err != nil {
		return nil, err
	}
	if n := f.Tokenizer.Len(); n > f.Config.Vocab {
		return nil, bad(filepath.Join(dir, ConfigName), "vocab_size: %d, but the tokenizer has %d tokens: the two files are of different models", f.Config.Vocab, n)
	}
	if f.path, err = weightsPath(dir); err != nil {
		return nil, err
	}
	if f.weights, err = safetensors.Open(ctx, f.path); err != nil {
		if pointsElsewhere(f.path) {
			err = errors.New(f.path + ": it is a git-lfs pointer, not the file itself: fetch that with git lfs pull")
		}
		return nil, unreadable(ctx, err)
	}
	if err := f.nameTensors(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close closes the files.
func (f *Folder) Close() error { return f.weights.Close() }

// unreadable is an ErrFormat with its cause, which names the file, unless ctx ended
// reading it.
func unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// pointsElsewhere reports whether a file is what git has in place of a large one.
func pointsElsewhere(path string) bool {
	const begin = "version https://git-lfs"
	text, err := osfile.Read(path, len(begin))
	return err == nil && string(text) == begin
}

// readConfig reads config.json.
func readConfig(dir string) (Config, []string, error) {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Config{}, nil, fmt.Errorf("%w: %w: name the folder of a model, with %s and %s", ErrFormat, err, ConfigName, WeightsName)
	case err != nil:
		return Config{}, nil, err
	case !st.IsDir():
		return Config{}, nil, bad(dir, "it is a file: name the folder of a model, with %s and %s", ConfigName, WeightsName)
	}
	path := filepath.Join(dir, ConfigName)
	text, err := osfile.Read(path, mostConfig+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Config{}, nil, bad(dir, "it has no %s: name the folder of a model in Hugging Face's layout", ConfigName)
	case errors.Is(err, osfile.ErrNotFile):
		return Config{}, nil, unreadable(context.Background(), err)
	case err != nil:
		return Config{}, nil, err
	case len(text) > mostConfig:
		return Config{}, nil, bad(path, "it has more than %d MiB: is it the right file?", mostConfig>>20)
	}
	return ParseConfig(path, text)
}

// readTokenizer reads tokenizer.json, or vocab.json and merges.txt.
func readTokenizer(dir string) (*tokenizer.BPE, error) {
	t, err := tokenizer.Load(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w: put the model's %s there, or vocab.json and merges.txt", ErrFormat, err, TokenizerName)
	case errors.Is(err, tokenizer.ErrFormat):
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return t, err
}

// weightsPath is the file of the weights, or of their index.
func weightsPath(dir string) (string, error) {
	for _, name := range []string{WeightsName, IndexName} {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil { // opening it says where a link leads to nothing
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, pickledName)); err == nil {
		return "", bad(dir, "its weights are in %s, a pickle file, which is not read: save the model again in Python with safe_serialization=True", pickledName)
	}
	return "", bad(dir, "it has no weights, neither %s nor %s: name the folder of a model in Hugging Face's layout", WeightsName, IndexName)
}
