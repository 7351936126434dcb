package paging

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func load(t *testing.T, path string) *Trace {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, _ := gzip.NewReader(f)
	tr := &Trace{}
	if err := json.NewDecoder(z).Decode(tr); err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestZZ(t *testing.T) {
	files, _ := filepath.Glob("/tmp/traces/*-100.json.gz")
	for _, f := range files {
		tr := load(t, f)
		free := Replay(tr, 0)
		for _, p := range []int64{50, 35, 25, 15} {
			l := free.Peak * p / 100
			r := Replay(tr, l)
			if !r.Fits {
				continue
			}
			s := time.Now()
			b := Bound(tr, l)
			t.Logf("%s %d%%: moved %d bound %d ratio %.3f (%v)", filepath.Base(f), p, r.Moved(), b, float64(r.Moved())/float64(b), time.Since(s))
		}
	}
}
