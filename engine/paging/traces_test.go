package paging

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/golden"
	"github.com/berth-ml/berth/internal/testall"
)

// TestTracesMoveLittle replays traces of plans in little memory, and compares the bytes
// that move and the launches that wait with those of a golden file, which should only
// become fewer. The name of a trace is its model, the microbatches of a step, and the
// memory as a percentage of the peak without a limit. When the file was written, no trace
// moved more than 1.25 times the fewest bytes that any choice can move.
func TestTracesMoveLittle(t *testing.T) {
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
			r := Replay(tr, limit)
			if !r.Fits || r.Peak > limit {
				t.Errorf("a peak of %d in %d bytes", r.Peak, limit)
			}
			golden.Check(t, strings.TrimSuffix(path, ".json.gz")+".golden", fmt.Sprintf(
				"loads %d bytes, spills %d; %d of %d launches wait\n", r.Loaded, r.Spilled, r.Waits, len(tr.Launches)))
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
