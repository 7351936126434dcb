package rundir_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

// boundaryLine is the line of metrics of an epoch's end.
func boundaryLine(epoch int) string {
	return fmt.Sprintf(`{"epoch":%d,"step":%d,"train_loss":0.5,"val_loss":0.25,"time":"2026-01-02T03:04:05.000Z"}`+"\n", epoch, 10*(epoch+1))
}

// What became of a run shows in its folder.
func TestSummarize(t *testing.T) {
	report := func(steps int) string { return fmt.Sprintf("{\n  \"steps\": %d,\n  \"epochs\": 0\n}\n", steps) }
	for name, c := range map[string]struct {
		fill        func(dir string)
		want        rundir.Condition
		step, epoch int
	}{
		"before a step": {func(dir string) { save(t, dir, runstate.Progress{}) }, rundir.New, 0, 0},
		"stopped": {func(dir string) {
			save(t, dir, runstate.Progress{Step: 14, Epoch: 1, Index: 4 * 32})
			put(t, dir, rundir.ReportName, report(14))
		}, rundir.Stopped, 14, 1},
		"failed after a call that stopped": {func(dir string) {
			save(t, dir, runstate.Progress{Step: 20, Epoch: 2})
			put(t, dir, rundir.ReportName, report(14))
			put(t, dir, rundir.MetricsName, boundaryLine(0)+boundaryLine(1))
		}, rundir.Failed, 20, 2},
		"killed": {func(dir string) {
			save(t, dir, runstate.Progress{Step: 14, Epoch: 1, Index: 4 * 32})
			put(t, dir, rundir.ReportName, report(14))
			put(t, dir, rundir.CheckpointsName+".pid", "999999999\n")
		}, rundir.Failed, 14, 1},
		"failed before a checkpoint": {func(dir string) {
			put(t, dir, rundir.ConfigName, string(configText(t)))
			put(t, dir, rundir.MetricsName, boundaryLine(0))
		}, rundir.Failed, 10, 1},
		"finished": {func(dir string) { save(t, dir, runstate.Progress{Step: 30, Epoch: 3}) }, rundir.Completed, 30, 3},
		"damaged": {func(dir string) {
			save(t, dir, runstate.Progress{Step: 30, Epoch: 3})
			damage(t, dir, `{"format":`)
		}, rundir.Unreadable, 0, 0},
	} {
		dir := t.TempDir()
		c.fill(dir)
		s := rundir.Summarize(dir)
		if s.Condition != c.want || s.Step != c.step || s.Epoch != c.epoch || (s.Problem != nil) != (c.want == rundir.Unreadable) || s.Bytes == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if !rundir.IsRun(dir) {
			t.Errorf("%s: it is no run", name)
		}
	}
}

// A run that trains shows how far it is, beyond its newest checkpoint.
func TestSummarizeRunning(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 10, Epoch: 1})
	put(t, dir, rundir.MetricsName, boundaryLine(0)+boundaryLine(1)+`{"epoch":2,"st`)
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := rundir.Summarize(dir)
	if s.Condition != rundir.Running || s.Step != 20 || s.Total != 30 || s.Epoch != 2 || s.Value("val_loss") != 0.25 || !math.IsNaN(s.Value("f1")) {
		t.Errorf("%+v", s)
	}
	if _, err := rundir.Remove(dir); !errors.Is(err, checkpoint.ErrHeld) || len(files(t, dir)) < 3 {
		t.Errorf("removed: %v", err)
	}
}

func TestRuns(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"b", "a", "notes"} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	save(t, filepath.Join(parent, "a"), runstate.Progress{})
	save(t, filepath.Join(parent, "b"), runstate.Progress{})
	put(t, filepath.Join(parent, "notes"), "config.yaml", "my: words\n")
	put(t, filepath.Join(parent, "notes"), "metrics.jsonl", "my words\n")
	put(t, parent, "checkpoints.db", "")
	dirs, err := rundir.Runs(parent)
	if want := []string{filepath.Join(parent, "a"), filepath.Join(parent, "b")}; err != nil || !slices.Equal(dirs, want) {
		t.Errorf("got %q, %v", dirs, err)
	}
}

// Remove deletes what a run has written, and nothing else.
func TestRemove(t *testing.T) {
	run := func() string {
		dir := filepath.Join(t.TempDir(), "run")
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		save(t, dir, runstate.Progress{Step: 14, Epoch: 1, Index: 4 * 32})
		put(t, dir, rundir.ConfigName, string(configText(t)))
		put(t, dir, rundir.MetricsName, boundaryLine(0))
		put(t, dir, "events.out.tfevents.1700000000.berth", "")
		return dir
	}
	dir := run()
	if left, err := rundir.Remove(dir); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	dir = run()
	put(t, dir, "notes.txt", "my own words\n")
	put(t, dir, rundir.ReportName, "my own report\n")
	left, err := rundir.Remove(dir)
	if want := []string{"notes.txt", rundir.ReportName}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left %q, %v", left, err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "none"), filepath.Join(dir, "notes.txt")} {
		if _, err := rundir.Remove(d); !errors.Is(err, rundir.ErrNoRun) {
			t.Errorf("%s: %v", d, err)
		}
	}
	if len(files(t, dir)) != 2 {
		t.Error("a folder without a run has changed")
	}
}
