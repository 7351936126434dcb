package datasets

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/filecache"
)

// A large text is tokenized once. The cache changes nothing but the time, and a
// file in it that is damaged, or missing, is made anew.
func TestTextCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	t.Setenv(filecache.Variable, dir)
	s := Spec{Source: "text", Path: write(t, "x.txt", strings.Repeat("the cat sat on the mat, and the rat ran.\n", cacheFrom/40)), Text: TextOptions{Context: 64, Tokenizer: "bpe:280"}}
	var doing []string
	s.Text.Progress = func(what string, _ float64) {
		if !slices.Contains(doing, what) {
			doing = append(doing, what)
		}
	}
	cached := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	first := open(t, s)
	if len(doing) != 4 || len(cached()) != 2 || first.Train.table.mapping == nil {
		t.Errorf("first: %q, files %q", doing, cached())
	}
	check := func(name string, did ...string) {
		t.Helper()
		doing = nil
		ds := open(t, s)
		if ds.Info.Fingerprint != first.Info.Fingerprint || !slices.Equal(doing, did) {
			t.Errorf("%s: %q, want %q; fingerprint %s, want %s", name, doing, did, ds.Info.Fingerprint, first.Info.Fingerprint)
		}
		a, b := readAll(t, first.Train, 1), readAll(t, ds.Train, 1)
		if !slices.Equal(a[0], b[0]) || !slices.Equal(a[1], b[1]) {
			t.Errorf("%s: other samples", name)
		}
	}
	check("again", "reading")
	for _, path := range cached() {
		// The one that is mapped stays as it is.
		if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("damaged"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	check("damaged", "reading", "counting words", "learning a tokenizer", "tokenizing")
	s.Text.Known = first.Info.Tokenizer
	check("a run that goes on", "reading")
	s.Text.Known = nil
	t.Setenv(filecache.Variable, s.Path) // which is no folder
	check("no cache", "reading", "counting words", "learning a tokenizer", "tokenizing")
	t.Setenv(filecache.Variable, dir)
	if err := os.WriteFile(s.Path, []byte("\xff"+strings.Repeat("x", cacheFrom)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), "1:1: not UTF-8") || len(cached()) != 2 {
		t.Errorf("not UTF-8: %v; files %q", err, cached())
	}
}
