package rundir_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

// The lines of steps that a resumed run does again are dropped, and a line that
// a crash cut off.
func TestMetricsUpToAStep(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	path := filepath.Join(dir, rundir.MetricsName)
	old := `{"step":2,"epoch":0,"loss":5}
{"epoch":0,"step":3,"train_loss":4}
{"step":4,"epoch":0,"loss":3}
{"step":5,"ep`
	if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: rundir.Resume})
	if err != nil {
		t.Fatal(err)
	}
	losses, logged, err := f.Start(configText(t), 3)
	if err != nil || !slices.Equal(losses, []float64{5}) || logged != 2 {
		t.Errorf("losses %v up to step %d, %v", losses, logged, err)
	}
	if err := f.Metrics.Write(rundir.StepLine{Step: 4, Loss: 2.5}); err != nil {
		t.Fatal(err)
	}
	f.Metrics.Flush()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	want := strings.Join(strings.SplitAfter(old, "\n")[:2], "") + `{"step":4,"epoch":0,"loss":2.5}` + "\n"
	if err != nil || string(text) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, text, want)
	}
}
