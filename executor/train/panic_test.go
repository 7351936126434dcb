package train_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// panicOf is the value that f panics with.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// released fails unless a run's devices are empty and its checkpoints free.
func released(t *testing.T, name string, r *berth.Run, dir string) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Errorf("%s: the devices: %v", name, err)
	}
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatalf("%s: the checkpoints: %v", name, err)
	}
	if err := db.Verify(t.Context(), 0, nil); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// A run that is closed within one of its calls stays open, and whole.
func TestCloseInUse(t *testing.T) {
	dir := t.TempDir()
	r := runtest.Open(t, runtest.Everything)
	defer r.Close()
	var errs []error
	tryClose := func() { errs = append(errs, r.Close()) }
	_, err := r.Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 3, Observer: &berth.Observer{
		Started: func(berth.Start) { tryClose() },
		Step:    func(berth.Step) { tryClose() },
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Predict(t.Context(), berth.Weights{Dir: dir}, "", func(berth.Prediction) error {
		tryClose()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range errs {
		if !errors.Is(err, berth.ErrInUse) {
			t.Fatalf("closed within a call: %v, expected ErrInUse", err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// An observer's panic goes on once everything that the run held is released.
func TestObserverPanics(t *testing.T) {
	const text = "the observer's own"
	boom := func() { panic(text) }
	third := func(n *int) {
		if *n++; *n == 3 {
			boom()
		}
	}
	var n int
	for name, o := range map[string]*berth.Observer{
		"Started":  {Started: func(berth.Start) { boom() }},
		"Step":     {Step: func(berth.Step) { third(&n) }},
		"Logged":   {Logged: func(berth.Step) { third(&n) }},
		"Boundary": {Boundary: func(berth.Boundary) { boom() }},
		"Saved":    {Saved: func(berth.Saved) { boom() }},
		"each save": {Step: func(s berth.Step) {
			if s.Step == 12 {
				boom()
			}
		}, Saved: func(berth.Saved) { boom() }},
	} {
		sets := [][]string{{"devices=cpu:1"}, {"devices=cpu:2", "checkpoint.staging=1MiB"}, {"devices=cpu:1", "checkpoint.every=1", "train.log_every=1"}}
		for i, set := range sets {
			if i != len(name)%len(sets) && !testall.Wanted() { // one for each function
				continue
			}
			n = 0
			dir := t.TempDir()
			r := runtest.Open(t, runtest.Everything, set...)
			var err error
			got := panicOf(func() {
				_, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir, Observer: o, Dump: filepath.Join(dir, "dump")})
			})
			if got != text {
				t.Errorf("%s, %v: panic %v, error %v", name, set, got, err)
			}
			released(t, fmt.Sprint(name, set), r, dir)
		}
	}
}

// So does the panic of a note while the checkpoints are opened.
func TestNotePanicsWhileOpening(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.every=1", "checkpoint.keep.last=9"), berth.TrainOptions{Dir: dir, MaxSteps: 4})
	runtest.DamageStep(t, dir, 4)
	r := runtest.Open(t, runtest.Everything)
	var err error
	o := &berth.Observer{Note: func(text string) { panic(text) }}
	got := panicOf(func() { _, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true, Observer: o}) })
	if text, ok := got.(string); !ok || !strings.Contains(text, "skipped") {
		t.Errorf("panic %v, error %v", got, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// A panic while answers are handed over frees the devices and the checkpoints.
func TestPredictPanics(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 3})
	r := runtest.Open(t, runtest.Everything)
	var err error
	w := berth.Weights{Dir: dir}
	if panicOf(func() { _, err = r.Predict(t.Context(), w, "", func(berth.Prediction) error { panic("emit") }) }) != "emit" {
		t.Errorf("no panic, error %v", err)
	}
	released(t, "predict", r, dir)
	if _, err := os.Stat(rundir.CheckpointPath(dir) + ".pid"); err == nil {
		t.Error("the process id is left")
	}
}
