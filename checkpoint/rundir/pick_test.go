package rundir_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

// ended is a run at an epoch's end, with the best loss so far.
func ended(step int, loss, best float64) runstate.Progress {
	return runstate.Progress{
		Step: step, Epoch: step / 10,
		Best: checkpoint.Best{Metric: "val_loss", Value: best, Minimize: true},
		Last: runstate.Boundary{Step: step, ValLoss: &loss},
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, ended(10, 0.5, 0.5))
	save(t, dir, ended(20, 0.3, 0.3))
	save(t, dir, ended(30, 0.4, 0.3))
	for _, c := range []struct {
		best bool
		id   uint64
		want int // step
	}{{want: 30}, {best: true, want: 20}, {id: 1, want: 10}} {
		f, err := rundir.Find(t.Context(), dir, c.best, c.id)
		if err != nil {
			t.Fatal(err)
		}
		if f.Snapshot.Manifest.Step != c.want || f.BestID != 2 || len(f.Skipped) > 0 {
			t.Errorf("%+v: step %d, best %d, skipped %v", c, f.Snapshot.Manifest.Step, f.BestID, f.Skipped)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := rundir.Find(t.Context(), dir, true, 1); !errors.Is(err, rundir.ErrPick) {
		t.Errorf("the best and an ID: %v", err)
	}
	if _, err := rundir.Find(t.Context(), dir, false, 9); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an ID that is missing: %v", err)
	}
	if _, err := rundir.Find(t.Context(), t.TempDir(), false, 0); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an empty folder: %v", err)
	}
	save(t, dir, ended(40, 0.2, 0.2)) // nobody has the file open any more
}

// A run that has saved nothing is told what to do.
func TestFindWithoutCheckpoints(t *testing.T) {
	dir := t.TempDir()
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.Find(t.Context(), dir, false, 0); !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), "train until the first is saved, or name another run") {
		t.Error(err)
	}
}

// Without the metric there is no best, which the error explains.
func TestFindWithoutABest(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	if _, err := rundir.Find(t.Context(), dir, true, 0); !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), "checkpoint.best's metric") {
		t.Errorf("got %v", err)
	}
	f, err := rundir.Find(t.Context(), dir, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.BestID != 0 {
		t.Errorf("the best is %d", f.BestID)
	}
}

func TestSavedConfig(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	save(t, dir, runstate.Progress{Step: 4, Index: 4 * 32}, "train.epochs=9")
	text, id, err := rundir.SavedConfig(dir)
	if err != nil || id != 2 || !bytes.Equal(text, configText(t, "train.epochs=9")) {
		t.Errorf("checkpoint %d, %v:\n%s", id, err, text)
	}
}
