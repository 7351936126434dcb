package specs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/runtest"
)

// A program's own samples train, validate, and resume exactly, with no copy in but the
// batch.
func TestOwnSamplesTrainAndResume(t *testing.T) {
	whole, apart := t.TempDir(), t.TempDir()
	r, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := runtest.Train(t, r, berth.TrainOptions{Dir: whole, AssertResident: true})
	if want.Steps != 30 || want.Final.ValAccuracy == nil || *want.Final.ValAccuracy < 0.9 {
		t.Errorf("%d steps, %+v", want.Steps, want.Final)
	}
	if l := want.Ledger.SteadyState; l.CopyInBytesPerStep != 16*(2*4+4) || l.PullBackBytesPerStep != 0 {
		t.Errorf("steady state: %+v", l)
	}
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: apart, MaxSteps: 13}); err != nil {
		t.Fatal(err)
	}
	got := runtest.Train(t, r, berth.TrainOptions{Dir: apart, Resume: true})
	if got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("a resumed run has other weights")
	}
	e, err := r.Eval(t.Context(), berth.Weights{Dir: whole})
	if err != nil || e.Samples != 40 || *e.Accuracy < 0.9 {
		t.Errorf("%+v, %v", e, err)
	}
	labels := ""
	_, err = r.Predict(t.Context(), berth.Weights{Dir: whole}, "", func(p berth.Prediction) error {
		labels += p.Label
		return nil
	})
	if err != nil || len(labels) != 40 || strings.Trim(labels, "abcd") != "" {
		t.Errorf("labels %q, %v", labels, err)
	}
}

// A run on other samples is not resumed by mistake.
func TestOwnSamplesAreOfTheFingerprint(t *testing.T) {
	dir := t.TempDir()
	r, err := runtest.OpenCorners(t, runtest.Corners(), runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	runtest.Train(t, r, berth.TrainOptions{Dir: dir, MaxSteps: 3})
	newer := runtest.Corners()
	newer.Version = 2
	if r, err = runtest.OpenCorners(t, newer, runtest.CornersConfig); err != nil {
		t.Fatal(err)
	}
	_, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
	if !errors.Is(err, berth.ErrChanged) || !strings.Contains(err.Error(), "the data is not what checkpoint") {
		t.Errorf("%v", err)
	}
}

// An error or a panic of a program's function ends the run with the sample's number,
// and the checkpoint before it is good.
func TestOwnSamplesFail(t *testing.T) {
	for name, fail := range map[string]func() error{
		"the disk is gone": func() error { return errors.New("the disk is gone") },
		"panic: no luck":   func() error { panic("no luck") },
	} {
		dir := t.TempDir()
		set := runtest.Corners()
		fill, failing := set.Fill, true
		set.Fill = func(s custom.Sample, input, target *tensor.Dense) error {
			if s.Epoch == 1 && s.Index == 17 && failing {
				return fail()
			}
			return fill(s, input, target)
		}
		set.Validation, set.Name = runtest.Corners(), "failing corners"
		r, err := runtest.OpenCorners(t, set, runtest.CornersConfig)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "failing corners, sample 17: "+name) {
			t.Errorf("%v, want %q", err, name)
		}
		failing = false
		if rep := runtest.Train(t, r, berth.TrainOptions{Dir: dir, Resume: true}); rep.Steps != 39 {
			t.Errorf("%d steps after it was mended", rep.Steps)
		}
	}
}

// Samples are given where the config says so, and only there.
func TestOwnSamplesAndTheConfigAgree(t *testing.T) {
	if _, err := runtest.OpenCorners(t, nil, runtest.CornersConfig); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "corners.yaml:2: ") {
		t.Errorf("no samples: %v", err)
	}
	digits := strings.Replace(runtest.CornersConfig, "given", "digits", 1)
	if _, err := runtest.OpenCorners(t, runtest.Corners(), digits); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "write `data: given`") {
		t.Errorf("samples for nothing: %v", err)
	}
	bad := runtest.Corners()
	bad.Classes = 3
	if _, err := runtest.OpenCorners(t, bad, runtest.CornersConfig); !errors.Is(err, berth.ErrData) || !strings.Contains(err.Error(), "sample 75: the class is 3") {
		t.Errorf("a class too many: %v", err)
	}
}

// A stop while the program's samples are slow saves what there is.
func TestOwnSamplesThatAreSlowDoNotDelayAStop(t *testing.T) {
	set, slow, reached := runtest.Corners(), make(chan struct{}), make(chan struct{})
	fill := set.Fill
	set.Fill = func(s custom.Sample, input, target *tensor.Dense) error {
		if s.Epoch == 1 && s.Index == 100 {
			close(reached)
			<-slow
		}
		return fill(s, input, target)
	}
	set.Validation = runtest.Corners() // all are trained on
	r, err := runtest.OpenCorners(t, set, runtest.CornersConfig)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	dir := t.TempDir()
	_, err = r.Train(ctx, berth.TrainOptions{Dir: dir, Observer: &berth.Observer{
		Saved: func(s berth.Saved) {
			if s.Step > 13 { // the save at the stop
				close(slow)
			}
		},
		Step: func(s berth.Step) {
			if s.Step == 14 {
				go func() {
					<-reached
					stop()
				}()
			}
		},
	}})
	if !errors.Is(err, berth.ErrStopped) {
		t.Fatal(err)
	}
	set.Fill = fill
}

func init() {
	custom.Register(custom.SourceType[struct{}]{
		Name: "test_corners", Version: 1,
		Open: func(context.Context, struct{}) (*custom.Set, error) { return runtest.Corners(), nil },
		OpenInputs: func(_ context.Context, _ struct{}, path string) (*custom.Set, error) {
			set := runtest.Corners()
			set.Len, set.Target = len(path), shape.Meta{}
			fill := set.Fill
			set.Fill = func(s custom.Sample, input, _ *tensor.Dense) error {
				return fill(s, input, tensor.New(tensor.WithBacking([]int32{0})))
			}
			return set, nil
		},
	})
}

// A registered source trains from a config alone; a trained model evaluates and predicts
// on its samples, also on those of a file.
func TestRegisteredSource(t *testing.T) {
	dir := t.TempDir()
	r, err := runtest.OpenCorners(t, nil, strings.Replace(runtest.CornersConfig, "given", "test_corners", 1))
	if err != nil {
		t.Fatal(err)
	}
	runtest.Train(t, r, berth.TrainOptions{Dir: dir})
	m, err := berth.OpenTrained(t.Context(), r.Config, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if e, err := m.Eval(t.Context()); err != nil || *e.Accuracy < 0.9 || e.Samples != 40 {
		t.Errorf("%+v, %v", e, err)
	}
	labels := ""
	if _, err := m.Predict(t.Context(), "six.in", func(p berth.Prediction) error { labels += p.Label; return nil }); err != nil || labels != "abcdab" {
		t.Errorf("labels %q, %v", labels, err)
	}
}
