package checkpoint

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth/engine/shape"
)

// numbers is a source of one tensor.
func numbers(name string, v ...float32) *mem {
	return &mem{tensors: []Tensor{{name, shape.F32(len(v)), "parameter"}}, data: map[string][]byte{name: shape.Bytes(v)}}
}

func saved(t *testing.T, db *DB, src Source) *Snapshot {
	t.Helper()
	id, err := db.Save(t.Context(), Manifest{}, src)
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStats(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "c.db"), small)
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	s := saved(t, db, numbers("x", 1e6+1, nan, 1e6+3, inf, 0, nan))
	got, err := s.Stats(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	mean := (2e6 + 4) / 3.0
	std := math.Sqrt((math.Pow(1e6+1-mean, 2) + math.Pow(1e6+3-mean, 2) + mean*mean) / 3)
	if got.Min != 0 || got.Max != 1e6+3 || got.Zero != 1 || got.NaN != 2 || got.Inf != 1 ||
		math.Abs(got.Mean-mean) > 1e-6 || math.Abs(got.Std-std) > 1e-6 {
		t.Errorf("got %+v, want mean %v, std %v", got, mean, std)
	}
	if _, err := s.Stats(t.Context(), "y"); err == nil {
		t.Error("statistics of a tensor that is not there")
	}
}

func TestDiff(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "c.db"), small)
	big := make([]float32, 5000) // several chunks
	a := numbers("big", big...)
	a.add("gone", 3, 1)
	a.add("reshaped", 3, 1)
	a.add("same", 3000, 2)
	first := saved(t, db, a)
	big[4097], big[4999] = 0.25, -0.5
	b := numbers("big", big...)
	b.add("reshaped", 4, 1)
	b.add("same", 3000, 2)
	b.add("new", 1, 1)
	ds, err := Diff(t.Context(), first, saved(t, db, b))
	if err != nil {
		t.Fatal(err)
	}
	if len(ds) != 4 || ds[0].Name != "big" || ds[0].Count != 2 || ds[0].Largest != 0.5 ||
		ds[1].Name != "gone" || ds[1].B != nil || ds[2].Name != "reshaped" || ds[2].Count != 0 || ds[3].Name != "new" || ds[3].A != nil {
		t.Errorf("got %+v", ds)
	}
	if ds, err := Diff(t.Context(), first, first); err != nil || len(ds) > 0 {
		t.Errorf("a checkpoint differs from itself: %v %v", ds, err)
	}
}
