package initial_test

import (
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// TestHash: the weights that variables get change the hash, and nothing else about their file does.
func TestHash(t *testing.T) {
	vars := []*graph.Value{
		{Name: "a", Meta: shape.F32(2), Role: graph.Parameter},
		{Name: "b", Meta: shape.F32(1), Role: graph.Statistic},
		{Name: "c", Meta: shape.F32(1), Role: graph.Metric},
	}
	dir, n := t.TempDir(), 0
	file := func(metadata map[string]string, entries ...safetensors.Entry) string {
		t.Helper()
		n++
		path := filepath.Join(dir, string(rune('a'+n)))
		if err := safetensors.WriteFile(path, entries, metadata); err != nil {
			t.Fatal(err)
		}
		return path
	}
	entry := func(name string, x ...float32) safetensors.Entry {
		return safetensors.Entry{Name: name, Meta: shape.F32(len(x)), Bytes: shape.Bytes(x)}
	}
	hash := func(init string) string {
		t.Helper()
		sum, err := initial.Hash(t.Context(), init, vars)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	plain := file(nil, entry("a", 1, 2), entry("b", 3))
	want := hash(plain)
	text, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(dir, "packed")
	f, err := os.Create(packed)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	_, err = z.Write(text)
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for name, init := range map[string]string{
		"compressed":    packed,
		"with metadata": file(map[string]string{"of": "a run"}, entry("a", 1, 2), entry("b", 3)),
		"with a prefix": file(nil, entry("x.a", 1, 2), entry("x.b", 3)) + ":x.",
		"with others":   file(nil, entry("a", 1, 2), entry("b", 3), entry("c", 4), entry("d", 5)),
	} {
		if got := hash(init); got != want {
			t.Errorf("%s: another hash", name)
		}
	}
	seen := []string{want}
	for name, init := range map[string]string{
		"another weight":    file(nil, entry("a", 1, 3), entry("b", 3)),
		"another statistic": file(nil, entry("a", 1, 2), entry("b", 4)),
		"no statistic":      file(nil, entry("a", 1, 2)),
	} {
		got := hash(init)
		if slices.Contains(seen, got) {
			t.Errorf("%s: the same hash", name)
		}
		seen = append(seen, got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, init := range []string{plain, packed} {
		if _, err := initial.Hash(ctx, init, vars); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: cancelled: %v", init, err)
		}
	}
	if _, err := initial.Hash(t.Context(), file(nil, entry("a", 1)), vars); !errors.Is(err, initial.ErrInit) {
		t.Errorf("a file that does not fit: %v", err)
	}
}
