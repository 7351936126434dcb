package berth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
)

// An observer inspects a run each so many steps and at boundaries; what it fetches is
// counted, and the weights do not change for it.
func TestInspect(t *testing.T) {
	r, err := openCorners(t, corners(), cornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := train(t, r, berth.TrainOptions{Dir: t.TempDir()})
	var steps, boundaries []int
	var losses []float64
	var late *berth.Inspection
	rep := train(t, r, berth.TrainOptions{Dir: t.TempDir(), AssertResident: true, Observer: &berth.Observer{
		InspectEvery: 4,
		Inspect: func(ctx context.Context, i *berth.Inspection) error {
			steps, losses = append(steps, i.Step), append(losses, i.Loss)
			if i.Boundary != nil {
				boundaries = append(boundaries, i.Boundary.Step)
			}
			w, err := i.Fetch(ctx, "layers.0.weight")
			if err == nil && (len(w.Float32s()) != 16 || i.LearningRate != 0.02) {
				t.Errorf("weight %v, learning rate %v", w.Shape(), i.LearningRate)
			}
			late = i
			return err
		},
	}})
	if rep.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("a run that is inspected has other weights")
	}
	if !slices.Equal(steps, []int{4, 8, 10, 12, 16, 20, 24, 28, 30}) || !slices.Equal(boundaries, []int{10, 20, 30}) {
		t.Errorf("inspected after %v, boundaries %v", steps, boundaries)
	}
	for k, step := range steps {
		if losses[k] != rep.Losses[step-1] {
			t.Errorf("step %d: loss %v, then %v", step, losses[k], rep.Losses[step-1])
		}
	}
	if rep.Ledger.ByReason["fetch"] < int64(len(steps)*16*4) {
		t.Errorf("%v", rep.Ledger.ByReason)
	}
	if _, err := late.Fetch(t.Context(), "layers.0.weight"); !errors.Is(err, berth.ErrClosed) {
		t.Errorf("after Inspect: %v", err)
	}
}

// An observer's error ends the run, which is saved where it stands; ErrEnd is no error of
// Train.
func TestInspectEndsTheRun(t *testing.T) {
	r, err := openCorners(t, corners(), cornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := train(t, r, berth.TrainOptions{Dir: t.TempDir()})
	mine := errors.New("the metric server is gone")
	for _, end := range []error{berth.ErrEnd, mine} {
		dir := t.TempDir()
		rep, err := r.Train(t.Context(), berth.TrainOptions{Dir: dir, Observer: &berth.Observer{
			InspectEvery: 7, Inspect: func(context.Context, *berth.Inspection) error { return end },
		}})
		if errors.Is(end, berth.ErrEnd) && (err != nil || rep.Steps != 7) || errors.Is(end, mine) && !errors.Is(err, mine) {
			t.Errorf("%v: %+v, %v", end, rep, err)
		}
		if rep = train(t, r, berth.TrainOptions{Dir: dir, Resume: true}); rep.Steps != 30 || rep.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("%v: resumed to step %d", end, rep.Steps)
		}
		b, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
		if err != nil || strings.Count(string(b), `"loss"`) != 30 {
			t.Errorf("%v: %d losses in metrics.jsonl, %v", end, strings.Count(string(b), `"loss"`), err)
		}
	}
}

// A service answers from several goroutines at once, as Predict does, and lets a request
// go whose context ends.
func TestService(t *testing.T) {
	dir := t.TempDir()
	r, err := openCorners(t, corners(), cornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	train(t, r, berth.TrainOptions{Dir: dir})
	testService(t, r.Config, dir)
}
