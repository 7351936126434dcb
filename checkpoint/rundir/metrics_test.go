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
	logged, err := f.Start(configText(t), 3)
	if err != nil {
		t.Fatal(err)
	}
	if losses := f.Metrics.Losses(); !slices.Equal(losses, []float64{5}) || logged != 2 {
		t.Errorf("losses %v up to step %d", losses, logged)
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
	if _, err := f.Start(configText(t), 0); err != nil {
		t.Fatal(err)
	}
	flush := func(step int) {
		if err := f.Metrics.Write(rundir.StepLine{Step: step, Loss: 1}); err != nil {
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
	want := `{"step":1,"epoch":0,"loss":1}
{"step":2,"epoch":0,"loss":1}
{"step":3,"epoch":0,"loss":1}
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
