package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/configs"
)

// longer goes on with a run of trained up to step 8, with more epochs.
func longer(t *testing.T, dir string) {
	t.Helper()
	c, err := configs.Load(filepath.Join(dir, rundir.ConfigName), configs.Overlay{Set: []string{"train.epochs=5"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{Resume: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true, AllowChanged: true, MaxSteps: 8})
	if errors.Is(err, berth.ErrStopped) {
		err = nil
	}
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
}

// A run's config stands beside that of its sweep, of the run whose weights it began with, and of its own oldest checkpoint.
func TestParents(t *testing.T) {
	folder := copied(t, "from")
	trial, began := filepath.Join(folder, "s", "trial-001"), filepath.Join(folder, "began")
	trained(t, trial, 4, "optimizer.lr=0.5", "checkpoint.best=val_accuracy", "checkpoint.every=2")
	trained(t, began, 2, "train.batch=8", "name=mine")
	text, err := os.ReadFile(filepath.Join(folder, "from", rundir.ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	list := []queued.Record{
		{ID: 1, State: "running", Run: filepath.Join(folder, "s"), Varied: &queued.Varied{Metric: "val_accuracy", Trials: 1, Vary: []queued.Dimension{{Key: "optimizer.lr", Values: []string{"0.5"}}}}},
		{ID: 2, State: "finished", Run: trial, Sweep: 1, Trial: 1, Tried: &queued.Tried{Settings: []string{"0.5"}}},
		{ID: 3, State: "finished", Run: filepath.Join(folder, "from")},
		{ID: 4, State: "finished", Run: began},
		{ID: 5, State: "finished", Run: filepath.Join(folder, "gone")},
	}
	if err := json.Unmarshal([]byte(`[{"job":3,"as":"init"},{"job":9,"as":"init"}]`), &list[3].Inputs); err != nil {
		t.Fatal(err)
	}
	trained(t, filepath.Join(folder, "longer"), 4, "checkpoint.every=2", "name=longer")
	longer(t, filepath.Join(folder, "longer"))
	asked, known := 0, false
	c := serve(t, Options{Folder: folder, Jobs: func(context.Context) []queued.Record { return slices.Clone(list) }, Config: func(_ context.Context, job int) (string, error) {
		if asked++; job != 1 || !known {
			return "", errors.New("no such job")
		}
		return string(text), nil
	}})
	bases := func(name string) (found []string) {
		t.Helper()
		var p runPage
		c.get(t, "/api/run?run="+c.id(t, name), &p)
		for _, b := range p.Config.Bases {
			var keys []string
			for _, x := range b.Differs {
				keys = append(keys, x.Key)
			}
			found = append(found, fmt.Sprintf("%s: %v %v", b.Name, keys, b.Run == c.id(t, "from")))
		}
		return found
	}
	const shipped = "the shipped digits: [train.epochs optimizer.lr devices.use devices.threads checkpoint.every checkpoint.best] false"
	if got := bases("trial-001"); !slices.Equal(got, []string{shipped}) {
		t.Errorf("a trial whose sweep does not answer: %q", got)
	}
	known = true
	for range 2 {
		if got := bases("trial-001"); !slices.Equal(got, []string{"sweep 1: [optimizer.lr checkpoint.every checkpoint.best] false", shipped}) {
			t.Errorf("a trial: %q", got)
		}
	}
	if asked != 2 {
		t.Errorf("the config of a sweep was asked for %d times", asked)
	}
	if got := bases("longer"); !slices.Equal(got, []string{"its checkpoint 2, at step 4: [train.epochs] false"}) {
		t.Errorf("a run that was resumed with another config: %q", got)
	}
	from := filepath.Join(folder, "from")
	if got := bases("began"); !slices.Equal(got, []string{from + ", with whose weights it began: [name train.batch] true"}) {
		t.Errorf("a run that began with the weights of another: %q", got)
	}
}
