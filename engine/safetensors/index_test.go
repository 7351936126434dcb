package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

func TestIndex(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, first float32, tensors ...string) {
		var entries []Entry
		for i, x := range tensors {
			entries = append(entries, Entry{Name: x, Meta: shape.F32(2), Bytes: shape.Bytes([]float32{first, float32(i)})})
		}
		if err := WriteFile(filepath.Join(dir, name), entries, nil); err != nil {
			t.Fatal(err)
		}
	}
	file("m-1-of-2.safetensors", 1, "b", "c", "unnamed")
	file("m-2-of-2.safetensors", 2, "a", "c")
	path := filepath.Join(dir, "m.safetensors.index.json")
	open := func(text string) (*File, error) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return Open(t.Context(), path)
	}
	f, err := open(`{"metadata": {"total_size": 24}, "weight_map": {"a": "m-2-of-2.safetensors", "b": "m-1-of-2.safetensors", "c": "m-2-of-2.safetensors"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.Tensors()); n != 3 {
		t.Errorf("%d tensors", n)
	}
	for name, want := range map[string][2]float32{"a": {2, 0}, "b": {1, 0}, "c": {2, 1}} {
		if got, err := f.Float32(name); err != nil || [2]float32(got) != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		`{`:  "not an index",
		`{}`: "no weight_map",
		`{"weight_map": {"a": "../m.safetensors"}}`:         "not in its folder",
		`{"weight_map": {"a": "/etc/passwd"}}`:              "not in its folder",
		`{"weight_map": {"a": "m-1-of-2.safetensors"}}`:     `tensor "a" is missing`,
		`{"weight_map": {"a": "none.safetensors"}}`:         "no such file",
		`{"weight_map": {"a": "m.safetensors.index.json"}}`: "not in its folder",
	} {
		if f, err := open(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", text, f, err)
		}
	}
}

// A weight that is not finite is refused by its file, tensor and element, in a plain file,
// one of several, and a compressed one.
func TestWeightsAreFinite(t *testing.T) {
	weights := make([]float32, chunkElems+8)
	weights[chunkElems+5] = float32(math.Inf(-1))
	var plain bytes.Buffer
	if err := Write(&plain, []Entry{{Name: "w", Meta: shape.F32(len(weights)), Bytes: shape.Bytes(weights)}}, nil); err != nil {
		t.Fatal(err)
	}
	path := written(t, plain.Bytes())
	index := filepath.Join(filepath.Dir(path), "m.index.json")
	if err := os.WriteFile(index, fmt.Appendf(nil, `{"weight_map": {"w": %q}}`, filepath.Base(path)), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(path string, err error) {
		t.Helper()
		want := fmt.Sprintf("%s: tensor w F32[%d]: a weight is not finite: element %d is -Inf", path, len(weights), chunkElems+5)
		if !errors.Is(err, ErrFinite) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, p := range []string{path, index} {
		f, err := Open(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		check(path, f.ReadWeights("w", 3, make([]float32, chunkElems+4)))
		if err := f.ReadWeights("w", 3, make([]float32, chunkElems)); err != nil {
			t.Errorf("the numbers before it: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	packed := written(t, packers["gz"](t, plain.Bytes()))
	s, err := OpenStream(t.Context(), packed)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(packed, s.ReadWeights(make([]float32, len(weights))))
}
