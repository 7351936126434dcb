package trained_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// writing opens a run's checkpoints as a run does that trains. again saves the
// checkpoint anew, under another ID, and keeps that one alone.
func writing(t *testing.T, dir string) (again func()) {
	t.Helper()
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return func() {
		s, _, err := db.Latest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := s.Manifest
		m.ID = 0
		if _, err = db.Save(t.Context(), m, others{s}); err == nil {
			_, _, err = db.Prune(t.Context(), checkpoint.Keep{Last: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// others is a checkpoint with other weights, so that it shares no contents.
type others struct{ *checkpoint.Snapshot }

func (o others) Read(name string, off int64, dst []byte) error {
	err := o.Snapshot.Read(name, off, dst)
	for i := 0; i+3 < len(dst); i += 4 {
		dst[i] ^= 1 // the last bit of a number
	}
	return err
}

// A model is opened and evaluated while a run trains. Where the run deletes the
// checkpoint before it is loaded, the next is used; one that was asked for by its ID
// is named.
func TestTrainedBesideARun(t *testing.T) {
	for _, limit := range []string{"devices.memory=0", "devices.memory=40%"} {
		dir := t.TempDir()
		runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir})
		c, err := configs.Parse("test.yaml", []byte(runtest.Everything), configs.Overlay{Set: []string{limit}})
		if err != nil {
			t.Fatal(err)
		}
		again := writing(t, dir)
		of := func(w berth.Weights) *berth.Trained {
			w.Dir = dir
			m, err := berth.OpenTrained(t.Context(), c, w, berth.TrainedOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			})
			return m
		}
		first := of(berth.Weights{})
		id := first.Used().ID
		fixed := of(berth.Weights{ID: id})
		if res, err := of(berth.Weights{Best: true}).Eval(t.Context()); err != nil || res.Weights.ID == 0 {
			t.Errorf("%s: the best: %+v, %v", limit, res, err)
		}
		again()
		if _, err := fixed.Eval(t.Context()); !errors.Is(err, checkpoint.ErrDeleted) {
			t.Errorf("%s: by ID: %v, want ErrDeleted", limit, err)
		}
		got, err := first.Eval(t.Context())
		if err != nil || got.Weights.ID != id+1 || first.Used().ID != id+1 {
			t.Fatalf("%s: used %+v, %v", limit, got.Weights, err)
		}
		want, err := of(berth.Weights{ID: id + 1}).Eval(t.Context())
		if err != nil || want.Loss != got.Loss {
			t.Errorf("%s: loss %v, want %v, %v", limit, got.Loss, want.Loss, err)
		}
	}
}

// Wherever in opening or loading a checkpoint is deleted, the result is of one
// checkpoint, whole.
func TestTrainedBesideARunAtAnyMoment(t *testing.T) {
	for _, limit := range []string{"devices.memory=0", "devices.memory=40%"} {
		dir := t.TempDir()
		runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir})
		c, err := configs.Parse("test.yaml", []byte(runtest.Everything), configs.Overlay{Set: []string{limit}})
		if err != nil {
			t.Fatal(err)
		}
		again := writing(t, dir)
		eval := func(ctx context.Context) (res berth.Evaluation, err error) {
			m, err := berth.OpenTrained(ctx, c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
			if err != nil {
				return res, err
			}
			res, err = m.Eval(ctx)
			return res, errors.Join(err, m.Close())
		}
		moved, moments := 0, 0
		if _, err := eval(asked{context.Background(), func() { moments++ }}); err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= moments; n += moments / testall.Or(2, 60) {
			asks := 0
			res, err := eval(asked{context.Background(), func() {
				if asks++; asks == n {
					again()
				}
			}})
			if errors.Is(err, checkpoint.ErrDeleted) && limit != "devices.memory=0" { // it is read again and again
				continue
			}
			if err != nil {
				t.Fatalf("%s: deleted at moment %d: %v", limit, n, err)
			}
			want, err := eval(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if same := want.Weights.ID == res.Weights.ID; same && want.Loss != res.Loss {
				t.Errorf("%s: deleted at moment %d: loss %v, want %v", limit, n, res.Loss, want.Loss)
			} else if same {
				moved++
			}
		}
		if moved == 0 {
			t.Errorf("%s: another checkpoint was taken %d times", limit, moved)
		}
	}
}

// Checkpoints of a run that trains are read by many at once, as fast as it saves.
func TestEvalsBesideATraining(t *testing.T) {
	dir := t.TempDir()
	set := []string{"checkpoint.every=1", "checkpoint.keep.last=1", "checkpoint.keep.best=1", "train.epochs=2"}
	c, err := configs.Parse("test.yaml", []byte(runtest.Everything), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	evals := make(chan berth.Evaluation, 100)
	var bad []error
	o := berth.TrainOptions{Dir: dir, Observer: &berth.Observer{Saved: func(s berth.Saved) {
		if s.Step%4 != 0 {
			return
		}
		m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
		if err == nil {
			var res berth.Evaluation
			if res, err = m.Eval(t.Context()); err == nil {
				evals <- res
			}
			err = errors.Join(err, m.Close())
		}
		bad = append(bad, err)
	}}}
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything, set...), o)
	close(evals)
	if err := errors.Join(bad...); err != nil {
		t.Fatal(err)
	}
	var steps []int
	for e := range evals {
		steps = append(steps, e.Weights.Step)
	}
	if !slices.IsSorted(steps) || len(steps) < 5 || steps[len(steps)-1] > rep.Steps {
		t.Errorf("evaluated at steps %v", steps)
	}
}
