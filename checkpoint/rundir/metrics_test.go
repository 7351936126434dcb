package rundir_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/engine/metrics"
)

// A file that is removed is there again at the next Flush, with all lines. One
// that is put in its place stays, and the lines wait until it is moved.
func TestMetricsRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, rundir.MetricsName)
	var said notes
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Warn: said.add})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Start(t.Context(), configText(t), rundir.Standing{}); err != nil {
		t.Fatal(err)
	}
	flush := func(step int) {
		if err := f.Metrics.Write(runstate.Step{Step: step, Loss: 1, LearningRate: 0.5}); err != nil {
			t.Fatal(err)
		}
		f.Metrics.Flush()
	}
	flush(1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	flush(2)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, dir, rundir.MetricsName, "my own words\n")
	flush(3)
	if got := files(t, dir)[rundir.MetricsName]; got != "my own words\n" {
		t.Errorf("the other file: %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if lost := f.Metrics.End(); lost != nil {
		t.Errorf("lost %+v", lost)
	}
	want := `{"step":1,"epoch":0,"loss":1,"learning_rate":0.5}
{"step":2,"epoch":0,"loss":1,"learning_rate":0.5}
{"step":3,"epoch":0,"loss":1,"learning_rate":0.5}
`
	if got := files(t, dir)[rundir.MetricsName]; got != want {
		t.Errorf("metrics:\n%swant\n%s", got, want)
	}
	if len(said) != 3 || !strings.Contains(said[0], "was removed") || !strings.Contains(said[1], "another file") || !strings.Contains(said[2], "was removed") {
		t.Errorf("said %q", said)
	}
}

// A report names what all calls of a run lost, but not the steps taken again.
func TestLostAfter(t *testing.T) {
	for _, c := range []struct {
		now, earlier *rundir.Lost
		upTo         int
		want         *rundir.Lost
	}{
		{nil, nil, 5, nil},
		{&rundir.Lost{Lines: 2, FirstStep: 6, LastStep: 7}, nil, 5, &rundir.Lost{Lines: 2, FirstStep: 6, LastStep: 7}},
		{nil, &rundir.Lost{Lines: 2, FirstStep: 3, LastStep: 4}, 5, &rundir.Lost{Lines: 2, FirstStep: 3, LastStep: 4}},
		{nil, &rundir.Lost{Lines: 2, FirstStep: 6, LastStep: 7}, 5, nil},
		{nil, &rundir.Lost{Lines: 9, FirstStep: 5, LastStep: 13}, 5, &rundir.Lost{Lines: 2, FirstStep: 5, LastStep: 5}},
		{&rundir.Lost{Lines: 2, FirstStep: 6, LastStep: 7}, &rundir.Lost{Lines: 1, FirstStep: 3, LastStep: 3}, 5, &rundir.Lost{Lines: 3, FirstStep: 3, LastStep: 7}},
	} {
		got := c.now.After(c.earlier, c.upTo)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%+v after %+v up to %d: %+v, want %+v", c.now, c.earlier, c.upTo, got, c.want)
		}
	}
}

// Metrics are fields of a boundary's line, null where they are not defined; a confusion
// matrix is one unless the line would be too long to be read again.
func TestMetricsOfABoundary(t *testing.T) {
	line := runstate.Boundary{Step: 3, Metrics: metrics.Values{"f1": 0.5, "auc": math.NaN(), "accuracy": 0.75}, Confusion: [][]int64{{1, 2}, {3, 4}}}
	text, err := rundir.TextOf(line)
	if want := `"time":"0001-01-01T00:00:00.000Z","val_auc":null,"val_f1":0.5,"val_confusion":[[1,2],[3,4]]}`; err != nil || !strings.HasSuffix(string(text), want) {
		t.Errorf("%s, %v; want %s at the end", text, err, want)
	}
	line.Confusion = slices.Repeat([][]int64{make([]int64, 200)}, 200)
	if text, err = rundir.TextOf(line); err != nil || !strings.HasSuffix(string(text), `"val_f1":0.5}`) {
		t.Errorf("%s, %v", text, err)
	}
}
