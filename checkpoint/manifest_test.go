package checkpoint

import (
	"math"
	"path/filepath"
	"testing"
)

func TestManifestFields(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "c.db"), small)
	m := Manifest{Metrics: map[string]float64{"nan": math.NaN(), "inf": math.Inf(-1), "tiny": 5e-324, "third": 1. / 3}}
	id, err := db.Save(t.Context(), m, &mem{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range m.Metrics {
		if got := s.Manifest.Metrics[k]; math.Float64bits(got) != math.Float64bits(v) && !(math.IsNaN(got) && math.IsNaN(v)) {
			t.Errorf("metric %s is %v, want %v", k, got, v)
		}
	}
	if s.Manifest.Time.IsZero() {
		t.Error("no time")
	}
	if _, err := db.Save(t.Context(), Manifest{Extra: []byte("{")}, &mem{}); err == nil {
		t.Error("bad Extra was saved")
	}
}
