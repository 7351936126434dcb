package train_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/internal/runtest"
)

// An observer inspects a run each so many steps and at boundaries; what it fetches is
// counted, and the weights do not change for it.
func TestInspect(t *testing.T) {
	r, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.Train(t, r, berth.TrainOptions{Dir: t.TempDir()})
	var steps, boundaries []int
	var losses []float64
	var late *berth.Inspection
	dir := t.TempDir()
	rep := runtest.Train(t, r, berth.TrainOptions{Dir: dir, AssertResident: true, Observer: &berth.Observer{
		InspectEvery: 4,
		Inspect: func(ctx context.Context, i *berth.Inspection) error {
			if i.Boundary != nil {
				if _, err := r.Eval(ctx, berth.Weights{Dir: dir}); !errors.Is(err, berth.ErrInUse) {
					t.Errorf("an evaluation within: %v", err)
				}
			}
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

// An observer reads what layers make of samples of its own, and of the last step's: with
// the weights of now, on one device and on two, and without a change of the weights.
func TestActivations(t *testing.T) {
	const text = `
data: given
model:
  layers:
    - dropout: {name: drop, rate: 0.5}
    - dense: {name: body, units: 8, activation: tanh}
    - dense: {name: head, units: 4}
train: {epochs: 2, batch: 16}
optimizer: {name: adam, lr: 0.02}
`
	points := []float32{1, 0.5, -1, 1, 0.25, -1}
	for _, devices := range []string{"", "devices: {use: 'cpu:2'}\npartition: {stages: 2}\n"} {
		r, err := runtest.OpenCorners(t, runtest.Corners(), text+devices)
		if err != nil {
			t.Fatal(err)
		}
		want := runtest.Train(t, r, berth.TrainOptions{Dir: t.TempDir()})
		calls := 0
		rep := runtest.Train(t, r, berth.TrainOptions{Dir: t.TempDir(), AssertResident: true, Observer: &berth.Observer{
			InspectEvery: 4,
			Inspect: func(ctx context.Context, i *berth.Inspection) error {
				calls++
				return checkActivations(t, ctx, i, points)
			},
		}})
		if rep.WeightsSHA256 != want.WeightsSHA256 || calls == 0 {
			t.Errorf("%q: %d calls; other weights: %t", devices, calls, rep.WeightsSHA256 != want.WeightsSHA256)
		}
		if least := int64(calls * 3 * (2 + 8 + 4) * 4); rep.Ledger.ByReason["fetch"] < least {
			t.Errorf("%q: %v, expected at least %d", devices, rep.Ledger.ByReason, least)
		}
	}
}

// checkActivations compares the outputs of layers with those of the weights.
func checkActivations(t *testing.T, ctx context.Context, i *berth.Inspection, points []float32) error {
	t.Helper()
	samples := tensor.New(tensor.WithShape(3, 2), tensor.WithBacking(points))
	drop, err1 := i.Activations(ctx, "drop", samples)
	body, err2 := i.Activations(ctx, "body", samples)
	last, err3 := i.Activations(ctx, "head", nil)
	w, err4 := i.Fetch(ctx, "body.weight")
	bias, err5 := i.Fetch(ctx, "body.bias")
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	if !slices.Equal(drop.Float32s(), points) {
		t.Errorf("step %d: the dropout gives %v", i.Step, drop.Float32s())
	}
	if n := last.Shape()[0]; n != 16 && n != 4 || last.Shape()[1] != 4 { // an epoch has 180 samples
		t.Errorf("step %d: the last batch's outputs are %v", i.Step, last.Shape())
	}
	for k, got := range body.Float32s() {
		x, unit := points[k/8*2:], k%8
		want := math.Tanh(float64(x[0]*w.Float32s()[2*unit] + x[1]*w.Float32s()[2*unit+1] + bias.Float32s()[unit]))
		if math.Abs(float64(got)-want) > 1e-5 {
			t.Errorf("step %d: unit %d of sample %d is %v, expected %v", i.Step, unit, k/8, got, want)
		}
	}
	if _, err := i.Activations(ctx, "heat", samples); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), `no layer "heat"; did you mean head?`) {
		t.Errorf("a wrong name: %v", err)
	}
	return nil
}

// An observer's error ends the run, which is saved where it stands; ErrEnd is no error of
// Train.
func TestInspectEndsTheRun(t *testing.T) {
	r, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.Train(t, r, berth.TrainOptions{Dir: t.TempDir()})
	mine := errors.New("the metric server is gone")
	for _, end := range []error{berth.ErrEnd, mine} {
		dir := t.TempDir()
		rep, err := r.Train(t.Context(), berth.TrainOptions{Dir: dir, Observer: &berth.Observer{
			InspectEvery: 7, Inspect: func(context.Context, *berth.Inspection) error { return end },
		}})
		if errors.Is(end, berth.ErrEnd) && (err != nil || rep.Steps != 7) || errors.Is(end, mine) && !errors.Is(err, mine) {
			t.Errorf("%v: %+v, %v", end, rep, err)
		}
		if rep = runtest.Train(t, r, berth.TrainOptions{Dir: dir, Resume: true}); rep.Steps != 30 || rep.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("%v: resumed to step %d", end, rep.Steps)
		}
		b, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
		if err != nil || strings.Count(string(b), `"loss"`) != 30 {
			t.Errorf("%v: %d losses in metrics.jsonl, %v", end, strings.Count(string(b), `"loss"`), err)
		}
	}
}
