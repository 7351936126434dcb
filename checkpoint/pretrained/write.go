package pretrained

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/osfile"
)

// Model is a model to write.
type Model struct {
	Config    Config
	Tokenizer *tokenizer.BPE // nil: none is written
	Chat      *chat.Format   // the chat template and special tokens that go with it; nil: none
	Weights   *checkpoint.Snapshot
	Instead   checkpoint.Source // the weights, where those in the checkpoint are an adapter's; nil: they are not
}

// CheckFolder refuses, with ErrFolder, a path that [Write] cannot make a folder of:
// one that there is, unless it is an empty folder.
func CheckFolder(dir string) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %s", dir, ErrFolder, fmt.Sprintf(format, args...))
	}
	if dir == "" {
		return fmt.Errorf("%w: the name is empty; name a folder", ErrFolder)
	}
	dir = cleaned(dir)
	switch st, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case st.Mode()&fs.ModeSymlink != 0:
		return refuse("it is a link; name the folder that it leads to, or another one")
	case !st.IsDir():
		return refuse("there is a file of that name; name a new folder")
	default:
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return refuse("the folder is not empty; name a new one")
		}
	}
	parent := filepath.Dir(dir)
	if st, err := os.Stat(parent); err != nil || !st.IsDir() {
		return refuse("%s is no folder; make it first", parent)
	}
	return nil
}

// cleaned is a path without "..", and without a separator at its end, which would
// follow a link.
func cleaned(dir string) string { return filepath.Clean(osfile.Resolve(dir)) }

// Write makes a folder of a model, which transformers' from_pretrained loads. It
// appears whole, or not at all. ctx ends it.
func Write(ctx context.Context, dir string, m Model) error {
	return writeFolder(dir, func(next string) error { return m.writeFiles(ctx, next) })
}

// writeFolder makes a folder with the files that write writes, whole or not at all.
func writeFolder(dir string, write func(next string) error) (err error) {
	if err := CheckFolder(dir); err != nil {
		return err
	}
	dir = cleaned(dir)
	next, err := osfile.FolderBeside(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, next.End()) }()
	if st, err := os.Stat(dir); err == nil { // who may not read the empty folder may not read the full one
		if err := os.Chmod(next.Path, st.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := write(next.Path); err != nil {
		return &unwritten{err, dir, next.Path}
	}
	if err := CheckFolder(dir); err != nil { // others may have filled it meanwhile
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(next.Path, dir); err != nil {
		return err
	}
	return osfile.SyncDir(filepath.Dir(dir))
}

// unwritten is an error about a folder, with its name in place of the one that it has while
// it is written.
type unwritten struct {
	cause     error
	dir, next string
}

func (u *unwritten) Error() string {
	return fmt.Sprintf("%s is not written: %s", u.dir, strings.ReplaceAll(u.cause.Error(), u.next, u.dir))
}

func (u *unwritten) Unwrap() error { return u.cause }

// writeFiles writes the files into a folder.
func (m Model) writeFiles(ctx context.Context, dir string) error {
	from := m.Instead
	if from == nil {
		from = m.Weights
	}
	if err := m.Weights.ExportFrom(ctx, from, filepath.Join(dir, WeightsName), nil, m.Config.nameOf); err != nil {
		return err
	}
	if m.Tokenizer != nil {
		if err := m.writeTokenizer(dir); err != nil {
			return err
		}
	}
	text, err := m.Config.JSON()
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, ConfigName), text)
}

// nameOf is the name of a tensor in the file; "" leaves it out.
func (c Config) nameOf(t checkpoint.Tensor) string {
	switch {
	case t.Role != roleParameter:
		return ""
	case t.Name == headName:
		return t.Name
	}
	return layoutOf(c.Family).prefix + t.Name
}

// roleParameter is the role of weights in a checkpoint.
const roleParameter = "parameter"

// writeTokenizer writes tokenizer.json, and the settings without which transformers
// would add tokens that the model does not have.
func (m Model) writeTokenizer(dir string) error {
	var text bytes.Buffer
	if err := m.Tokenizer.Write(&text); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, TokenizerName), text.Bytes()); err != nil {
		return err
	}
	settings := map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": m.Config.Context, "clean_up_tokenization_spaces": false,
	}
	begin, end := m.Config.BeginOfText, m.Config.EndOfText
	if m.Config.Family == GPT2 {
		begin = cmp.Or(begin, end)
	}
	for key, id := range map[string]*uint32{"bos_token": begin, "eos_token": end} {
		if id != nil {
			settings[key] = tokenizer.Text(m.Tokenizer, *id)
		}
	}
	if m.Config.Family == GPT2 && end != nil {
		settings["unk_token"] = settings["eos_token"]
	}
	maps.Copy(settings, m.Chat.Settings())
	if m.Chat != nil && len(m.Chat.Ends) > 0 {
		ends, err := indented(map[string]any{"bos_token_id": begin, "eos_token_id": m.Chat.Ends})
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, endsName), ends); err != nil {
			return err
		}
	}
	b, err := indented(settings)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, settingsName), b)
}

// writeFile writes a file that is on the disk when it returns.
func writeFile(path string, text []byte) error {
	return osfile.Replace(path, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}
