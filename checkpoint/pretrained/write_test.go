package pretrained_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/pretrained"
	"github.com/berth-ml/berth/internal/golden"
)

// saved saves the fixture's weights, and gives the model to write.
func saved(t testing.TB) pretrained.Model {
	t.Helper()
	f, err := pretrained.Open(t.Context(), fixture)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := f.Weights(parameters(f.Config), nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := checkpoint.Open(filepath.Join(t.TempDir(), "checkpoints.db"), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	id, err := db.Save(t.Context(), checkpoint.Manifest{}, w)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	m := pretrained.Model{Config: f.Config, Tokenizer: f.Tokenizer, Weights: snap}
	if end, ok := f.Tokenizer.EndOfText(); ok {
		m.Config.EndOfText = &end
	}
	return m
}

// A folder that was read and written again has the same config, tokenizer and
// tensors, bit for bit.
func TestThereAndBack(t *testing.T) {
	m, dir := saved(t), filepath.Join(t.TempDir(), "out")
	if err := pretrained.Write(t.Context(), dir, m); err != nil {
		t.Fatal(err)
	}
	if !same(tensors(t, filepath.Join(dir, "model.safetensors")), tensors(t, filepath.Join(fixture, "model.safetensors"))) {
		t.Error("other tensors")
	}
	for name, want := range map[string]string{
		"config.json": "testdata/gpt2/config.json", "tokenizer.json": "testdata/gpt2/tokenizer.json", "tokenizer_config.json": "testdata/tokenizer_config.json",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, want, string(text))
	}
	list, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(list) != 1 {
		t.Errorf("%v beside the folder, %v", list, err)
	}
}

// An empty folder is filled; what holds something, or is no folder, stays.
func TestWriteRefuses(t *testing.T) {
	m, root := saved(t), t.TempDir()
	empty, full, file, link := filepath.Join(root, "empty"), filepath.Join(root, "full"), filepath.Join(root, "file"), filepath.Join(root, "link")
	if err := errors.Join(os.Mkdir(empty, 0o755), os.Mkdir(full, 0o755)); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(full, "mine"), "mine")
	put(t, file, "mine")
	for path, want := range map[string]string{
		full: "is not empty; name a new one", file: "a file of that name", "": "the name is empty", filepath.Join(root, "no", "where"): "make it first",
	} {
		if err := pretrained.Write(t.Context(), path, m); !errors.Is(err, pretrained.ErrFolder) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if err := os.Symlink(empty, link); err == nil {
		for _, path := range []string{link, link + string(filepath.Separator)} {
			if err := pretrained.Write(t.Context(), path, m); !errors.Is(err, pretrained.ErrFolder) {
				t.Errorf("a link: %v", err)
			}
		}
	}
	if err := os.Chmod(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := pretrained.Write(t.Context(), empty+string(filepath.Separator), m); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(empty, "config.json")); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(empty); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o700 {
		t.Errorf("the folder has the mode %v, %v", st.Mode(), err)
	}
}

// What is stopped, or cannot be written, leaves nothing.
func TestWriteLeavesNothing(t *testing.T) {
	m, root := saved(t), t.TempDir()
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if err := pretrained.Write(ctx, filepath.Join(root, "a"), m); !errors.Is(err, over) {
		t.Errorf("stopped: %v", err)
	}
	m.Config.Activation = "none"
	if err := pretrained.Write(t.Context(), filepath.Join(root, "b"), m); err == nil {
		t.Error("an unknown activation was written")
	}
	list, err := os.ReadDir(root)
	if err != nil || len(list) > 0 {
		t.Errorf("left are %v, %v", list, err)
	}
}
