package paging

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// TestTracesMoveLittleMoreThanTheBound replays traces of plans in little memory.
// The name of one is its model, the microbatches of a step, and the memory as a
// percentage of the peak without a limit.
func TestTracesMoveLittleMoreThanTheBound(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.json.gz")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d traces, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json.gz")
		t.Run(name, func(t *testing.T) {
			if (strings.Contains(name, "small") || !strings.Contains(name, "cnn") && !strings.Contains(name, "-1-")) && !testall.Wanted() {
				t.Skip("takes longer: TEST_ALL=1 runs it")
			}
			t.Parallel()
			tr, limit := readTrace(t, path)
			r, bound := Replay(tr, limit, NextUse), Bound(tr, limit)
			t.Logf("in %d bytes, the floor is %d: moved %d, %.3f of the bound; %d of %d launches wait; %d ahead",
				limit, r.Floor, r.Moved(), float64(r.Moved())/float64(bound), r.Waits, len(tr.Launches), NewPolicy(tr, limit, NextUse).Ahead)
			if !r.Fits || r.Peak > limit || bound == 0 || r.Moved() < bound || float64(r.Moved()) > 1.25*float64(bound) {
				t.Errorf("moved %d bytes with a peak of %d, the bound is %d", r.Moved(), r.Peak, bound)
			}
		})
	}
}

func readTrace(t *testing.T, path string) (*Trace, int64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var x struct {
		Limit int64
		Trace *Trace
	}
	if err := json.NewDecoder(z).Decode(&x); err != nil {
		t.Fatal(err)
	}
	if err := x.Trace.Check(); err != nil {
		t.Fatal(err)
	}
	return x.Trace, x.Limit
}
