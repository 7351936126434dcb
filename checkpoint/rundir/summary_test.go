package rundir_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

func TestStatusOf(t *testing.T) {
	stopping := []string{"early_stopping.metric=val_loss", "early_stopping.patience=2"}
	for name, c := range map[string]struct {
		at   runstate.Progress
		set  []string
		want rundir.Status
	}{
		"in an epoch":       {runstate.Progress{Step: 14, Epoch: 1, Index: 4 * 32}, nil, rundir.Status{State: rundir.Unfinished, Step: 14, Total: 30}},
		"before a step":     {runstate.Progress{}, nil, rundir.Status{State: rundir.Unfinished, Total: 30}},
		"at an epoch's end": {runstate.Progress{Step: 20, Epoch: 2}, nil, rundir.Status{State: rundir.Unfinished, Step: 20, Total: 30}},
		"all steps":         {runstate.Progress{Step: 30, Epoch: 3}, nil, rundir.Status{State: rundir.Finished, Step: 30, Total: 30}},
		"not patient":       {runstate.Progress{Step: 20, Epoch: 2, Watched: runstate.Watched{Metric: "val_loss", Bad: 2}}, stopping, rundir.Status{State: rundir.Finished, Step: 20, Total: 30}},
		"still patient":     {runstate.Progress{Step: 20, Epoch: 2, Watched: runstate.Watched{Metric: "val_loss", Bad: 1}}, stopping, rundir.Status{State: rundir.Unfinished, Step: 20, Total: 30}},
	} {
		dir := t.TempDir()
		save(t, dir, runstate.Progress{Step: 2, Index: 2 * 32})
		save(t, dir, c.at, c.set...)
		before := files(t, dir)
		got, err := rundir.StatusOf(dir)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.want)
		}
		if !maps.Equal(files(t, dir), before) {
			t.Errorf("%s: files have changed", name)
		}
	}
}

// A folder without a checkpoint is none, whatever else is in it.
func TestStatusOfNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, rundir.ConfigName), configText(t), 0o644); err != nil {
		t.Fatal(err)
	}
	begun := t.TempDir()
	db, err := checkpoint.Open(rundir.CheckpointPath(begun), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, begun, filepath.Join(dir, "nowhere")} {
		if got, err := rundir.StatusOf(d); err != nil || got != (rundir.Status{}) {
			t.Errorf("%s: got %+v, %v", d, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a folder was made")
	}
}

func TestStatusOfHeldOrDamaged(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.StatusOf(dir); !errors.Is(err, checkpoint.ErrHeld) {
		t.Errorf("while a run trains: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, dir, `{"format":`)
	if st, err := rundir.StatusOf(dir); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("damaged: %+v, %v", st, err)
	}
}

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

// A run that is summarized again shows what has changed, its config too.
func TestSummarizeAgain(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 10, Epoch: 1})
	put(t, dir, rundir.ConfigName, string(configText(t)))
	first := rundir.Summarize(dir)
	put(t, dir, rundir.MetricsName, boundaryLine(0)+boundaryLine(1))
	second := rundir.SummarizeAgain(dir, first)
	if !slices.Equal(second.Saved, []int{10}) || second.Step != 20 || second.Config != first.Config || second.Total != 30 {
		t.Errorf("after another boundary: %+v", second)
	}
	put(t, dir, rundir.ConfigName, string(configText(t, "train.epochs=5")))
	if third := rundir.SummarizeAgain(dir, second); third.Config.Train.Epochs != 5 {
		t.Errorf("after another config: %+v", third.Config.Train)
	}
	put(t, dir, rundir.ConfigName, "nothing: of a run\n")
	if last := rundir.SummarizeAgain(dir, second); last.Config == nil || last.Config.Train.Epochs != 3 { // the checkpoint's
		t.Errorf("after a config that is none: %+v", last.Config)
	}
}

// A finished run shows the result of its test part, unless the report is of an earlier call.
func TestSummarizeTest(t *testing.T) {
	for steps, want := range map[int]bool{30: true, 20: false} {
		dir := t.TempDir()
		save(t, dir, runstate.Progress{Step: 30, Epoch: 3})
		put(t, dir, rundir.ReportName, fmt.Sprintf(`{"steps": %d, "epochs": 3, "losses": [0.5], "test": {"step": 20, "loss": 0.25, "metrics": {"auc": null}}}`, steps))
		s := rundir.Summarize(dir)
		if got := s.Test != nil; got != want || want && (s.Test.Step != 20 || s.Test.Loss != 0.25 || !math.IsNaN(s.Test.Metrics["auc"])) {
			t.Errorf("a report of %d steps: %+v", steps, s.Test)
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
