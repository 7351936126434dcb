package train_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/internal/runtest"
)

// stepsOf are the steps of a run's checkpoints.
func stepsOf(t *testing.T, dir string) (steps []int) {
	t.Helper()
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	list, _, err := db.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		steps = append(steps, m.Step)
	}
	return steps
}

// Damage of a checkpoint that would be kept is said once, the one before it is
// kept as well, and the run goes on.
func TestDamageIsSaidWhileTidying(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.every=1", "checkpoint.keep.last=9"), berth.TrainOptions{Dir: dir, MaxSteps: 4})
	runtest.DamageStep(t, dir, 3)
	var notes []string
	o := berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 6, Observer: &berth.Observer{Note: func(text string) { notes = append(notes, text) }}}
	runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.every=1", "checkpoint.keep.last=4"), o)
	if got := stepsOf(t, dir); len(got) != 5 || got[0] != 2 {
		t.Errorf("checkpoints of steps %v are left", got)
	}
	said := 0
	for _, text := range notes {
		if strings.HasPrefix(text, "skipped checkpoint 3: ") && strings.Contains(text, "damaged") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("said %d times: %q", said, notes)
	}
}

// A run that is to stop reads no old checkpoints before it ends; the next one
// tidies up.
func TestStoppingIsNotHeldUpByTidying(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.every=1", "checkpoint.keep.last=9"), berth.TrainOptions{Dir: dir, MaxSteps: 4})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := berth.TrainOptions{Dir: dir, Resume: true, Observer: &berth.Observer{
		Step: func(berth.Step) { cancel() },
		Note: func(text string) {
			if strings.Contains(text, "tidying") {
				t.Error(text)
			}
		},
	}}
	if _, err := runtest.Open(t, runtest.Everything, "checkpoint.keep.last=3").Train(ctx, o); !errors.Is(err, berth.ErrStopped) {
		t.Fatal(err)
	}
	if got := stepsOf(t, dir); len(got) != 5 {
		t.Errorf("stopped: checkpoints of steps %v", got)
	}
	runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.keep.last=3"), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 7})
	if got := stepsOf(t, dir); len(got) != 3 || got[2] != 7 {
		t.Errorf("then: checkpoints of steps %v", got)
	}
}

// A run that starts waits a moment for those who look at its checkpoints.
func TestRunsWaitForReaders(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	for _, o := range []berth.TrainOptions{{Dir: dir, Resume: true, MaxSteps: 2}, {Dir: dir, Fresh: true, MaxSteps: 2}} {
		db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			time.Sleep(100 * time.Millisecond)
			done <- db.Close()
		}()
		if rep := runtest.Train(t, runtest.Open(t, runtest.Everything), o); rep.Steps != 2 {
			t.Errorf("%d steps", rep.Steps)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
