package initial_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// adapted are the variables of a model with an adapter.
func adapted() []*graph.Value {
	return []*graph.Value{
		{Name: "a.weight", Meta: shape.F32(2), Role: graph.Parameter, Init: graph.Init{Kind: graph.Normal, A: 1}, Tags: []string{graph.BaseTag}},
		{Name: "a.lora_A.weight", Meta: shape.F32(2), Role: graph.Parameter, Init: graph.Init{Kind: graph.Normal, A: 1}, Tags: []string{graph.AdapterTag}},
		{Name: "n.mean", Meta: shape.F32(1), Role: graph.Statistic},
	}
}

// TestOpenBase: the base is that of its hash alone, and the adapter is no part of it.
func TestOpenBase(t *testing.T) {
	vars, dir := adapted(), t.TempDir()
	file := func(name string, w, mean float32) string {
		t.Helper()
		path := filepath.Join(dir, name)
		err := safetensors.WriteFile(path, []safetensors.Entry{
			{Name: "a.weight", Meta: shape.F32(2), Bytes: shape.Bytes([]float32{1, w})},
			{Name: "a.lora_A.weight", Meta: shape.F32(2), Bytes: shape.Bytes([]float32{7, 7})},
			{Name: "n.mean", Meta: shape.F32(1), Bytes: shape.Bytes([]float32{mean})},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	hash := func(init string, seed uint64) string {
		t.Helper()
		x, err := initial.Open(t.Context(), init, seed, vars)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		sum, err := x.BaseHash(t.Context(), vars)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := file("first", 2, 3)
	sum := hash(first, 1)
	if again := hash(file("again", 2, 4), 5); again != sum {
		t.Errorf("statistics or the seed change the hash of a base in a file")
	}
	if one, again := hash("", 1), hash("", 1); one == hash("", 2) || one != again {
		t.Errorf("without a file, the base is not that of the seed")
	}
	x, err := initial.OpenBase(t.Context(), first, sum, 1, vars)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	w := make([]float32, 2)
	if err := x.Read(vars[0], shape.Bytes(w)); err != nil || !slices.Equal(w, []float32{1, 2}) {
		t.Errorf("%v, %v", w, err)
	}
	if err := x.Read(vars[1], shape.Bytes(w)); err != nil || slices.Equal(w, []float32{7, 7}) {
		t.Errorf("the adapter begins with the file's %v, %v", w, err)
	}
	other := file("other", 9, 3)
	_, err = initial.OpenBase(t.Context(), other, sum, 1, vars)
	if !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), sum) || !strings.Contains(err.Error(), hash(other, 1)) {
		t.Errorf("another base: %v", err)
	}
	if _, err := initial.OpenBase(t.Context(), "", sum, 1, vars); !errors.Is(err, initial.ErrInit) {
		t.Errorf("the seed's base in place of a file's: %v", err)
	}
	if _, err := initial.OpenBase(t.Context(), filepath.Join(dir, "none"), sum, 1, vars); !errors.Is(err, initial.ErrInit) || !strings.Contains(err.Error(), "put the file back") {
		t.Errorf("a base that is gone: %v", err)
	}
}
