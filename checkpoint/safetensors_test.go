package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

func TestExport(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "c.db"), small)
	m, src := at(3)
	src.tensors[2].Role = "optimizer state"
	id, err := db.Save(t.Context(), m, src)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.safetensors")
	if err := db.Export(id, out, "parameter"); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for _, e := range f.Tensors() {
		names = append(names, e.Name)
		dst := make([]byte, e.Bytes())
		if err := f.Read(e.Name, dst); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst, src.data[e.Name]) {
			t.Errorf("tensor %q differs", e.Name)
		}
	}
	if got := fmt.Sprint(names); got != "[empty frozen moving]" {
		t.Errorf("exported %s", got)
	}
	if err := db.Export(id, out, "nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("export of no role: %v", err)
	}
}

func TestImport(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "c.db"), small)
	src := numbers("w", 1, 2, 3)
	src.add("b", 2, 1)
	src.tensors = append(src.tensors, Tensor{"m", shape.F32(3), "optimizer state"})
	src.data["m"] = shape.Bytes([]float32{7, 8, 9})
	base := saved(t, db, src)
	file := func(name string, v map[string][]float32) string {
		var es []safetensors.Entry
		for n, x := range v {
			es = append(es, safetensors.Entry{Name: n, Meta: shape.F32(len(x)), Read: func(dst []byte) error {
				copy(dst, shape.Bytes(x))
				return nil
			}})
		}
		path := filepath.Join(dir, name)
		if err := safetensors.WriteFile(path, es, nil); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", map[string][]float32{"net.w": {4, 5, 6}, "net.b": {1, 1}, "other": {0}})
	id, err := db.Import(t.Context(), base, good, "net.", "parameter")
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{"w": {4, 5, 6}, "b": {1, 1}, "m": {7, 8, 9}} {
		got := make([]byte, 4*len(want))
		if err := s.Read(name, 0, got); err != nil || string(got) != string(shape.Bytes(want)) {
			t.Errorf("%s is %v, want %v (%v)", name, shape.View[float32](got), want, err)
		}
	}
	for name, c := range map[string]struct {
		tensors map[string][]float32
		want    string
	}{
		"missing": {map[string][]float32{"w": {1, 2, 3}}, "b is missing"},
		"shape":   {map[string][]float32{"w": {1, 2}, "b": {1, 1}}, "w is [2]"},
		"unknown": {map[string][]float32{"w": {1, 2, 3}, "b": {1, 1}, "q": {1}}, "q is not in"},
		"nan":     {map[string][]float32{"w": {1, float32(math.NaN()), 3}, "b": {1, 1}}, dir + "/nan: tensor w F32[3]: a weight is not finite: element 1 is NaN"},
	} {
		if _, err := db.Import(t.Context(), base, file(name, c.tensors), "", "parameter"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
