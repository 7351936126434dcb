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
		Last: runstate.Epoch{Step: step, ValLoss: &loss},
	}
}

func TestView(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, ended(10, 0.5, 0.5))
	save(t, dir, ended(20, 0.3, 0.3))
	save(t, dir, ended(30, 0.4, 0.3))
	for _, c := range []struct {
		best bool
		id   uint64
		want int // step
	}{{want: 30}, {best: true, want: 20}, {id: 1, want: 10}} {
		err := rundir.View(t.Context(), dir, c.best, c.id, func(f rundir.Found) error {
			if f.Snapshot.Manifest.Step != c.want || f.BestID != 2 || len(f.Skipped) > 0 {
				t.Errorf("%+v: step %d, best %d, skipped %v", c, f.Snapshot.Manifest.Step, f.BestID, f.Skipped)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	none := func(rundir.Found) error {
		t.Error("something was found")
		return nil
	}
	if err := rundir.View(t.Context(), dir, true, 1, none); !errors.Is(err, rundir.ErrPick) {
		t.Errorf("the best and an ID: %v", err)
	}
	if err := rundir.View(t.Context(), dir, false, 9, none); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an ID that is missing: %v", err)
	}
	if err := rundir.View(t.Context(), t.TempDir(), false, 0, none); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an empty folder: %v", err)
	}
}

// Without the metric there is no best, which the error explains.
func TestViewWithoutABest(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	err := rundir.View(t.Context(), dir, true, 0, func(rundir.Found) error { return nil })
	if !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), "checkpoint.best's metric") {
		t.Errorf("got %v", err)
	}
	err = rundir.View(t.Context(), dir, false, 0, func(f rundir.Found) error {
		if f.BestID != 0 {
			t.Errorf("the best is %d", f.BestID)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
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
