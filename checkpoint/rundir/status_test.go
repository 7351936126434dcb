package rundir_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
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
