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
		w    rundir.Weights
		want int // step
	}{
		{rundir.Weights{Dir: dir}, 20},
		{rundir.Weights{Dir: dir, Best: true}, 20},
		{rundir.Weights{Dir: dir, Last: true}, 30},
		{rundir.Weights{Dir: dir, ID: 1}, 10},
	} {
		f, err := rundir.Find(t.Context(), c.w)
		if err != nil {
			t.Fatal(err)
		}
		if u := c.w.Used(f); u.Step != c.want || u.BestID != 2 || u.NewestID != 3 || u.Best != (c.want == 20) || len(f.Skipped) > 0 {
			t.Errorf("%+v: %+v", c, u)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, w := range []rundir.Weights{{Best: true, ID: 1}, {Last: true, ID: 1}, {Best: true, Last: true}} {
		w.Dir = dir
		if _, err := rundir.Find(t.Context(), w); !errors.Is(err, rundir.ErrPick) {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if _, err := rundir.Find(t.Context(), rundir.Weights{Dir: dir, ID: 9}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("an ID that is missing: %v", err)
	}
	if _, err := rundir.Find(t.Context(), rundir.Weights{Dir: t.TempDir()}); !errors.Is(err, checkpoint.ErrNotFound) {
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
	if _, err := rundir.Find(t.Context(), rundir.Weights{Dir: dir}); !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), "train until the first is saved, or name another run") {
		t.Error(err)
	}
}

// Without the metric there is no best, and the newest is used. Who insists on the best is
// told why there is none.
func TestFindWithoutABest(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	if _, err := rundir.Find(t.Context(), rundir.Weights{Dir: dir, Best: true}); !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), "checkpoint.best's metric") {
		t.Errorf("got %v", err)
	}
	f, err := rundir.Find(t.Context(), rundir.Weights{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if u := (rundir.Weights{}).Used(f); u.ID != 1 || u.BestID != 0 || u.NewestID != 1 {
		t.Errorf("%+v", u)
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
