//go:build unix

package datasets

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pipe is refused at once, wherever a file is expected.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"x.csv", "x.txt", "x.npz", "x.safetensors", "input.npy", "train-images-idx3-ubyte"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LearnTokenizer(t.Context(), []string{filepath.Join(dir, "x.txt")}, LearnOptions{Vocab: 300}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "x.txt is not a file") {
		t.Errorf("learning a tokenizer: %v", err)
	}
	text := TextOptions{Context: 4}
	for _, s := range []Spec{
		{Source: "csv", Path: "x.csv"}, {Source: "text", Path: "x.txt", Text: text}, {Source: "tensors", Path: "x.npz"},
		{Source: "tensors", Path: "x.safetensors"}, {Source: "tensors"}, {Source: "mnist"},
	} {
		s.Path = filepath.Join(dir, s.Path)
		ended := make(chan error, 1)
		go func() {
			_, err := Open(t.Context(), s)
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil || !errors.Is(err, ErrFormat) && s.Source != "tensors" || !strings.Contains(err.Error(), "not a") {
				t.Errorf("%s %s: %v", s.Source, s.Path, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s %s: still waiting", s.Source, s.Path)
		}
	}
}
