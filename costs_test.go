package berth

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

// A run whose plan follows from arithmetic is predicted by measured times wherever the
// file has those of all its segments. Its plans are still made without them.
func TestPredictionByTimesThatAreThere(t *testing.T) {
	config, err := configs.Load("digits", configs.Overlay{Set: []string{"devices.use=cpu:2", "train.microbatches=2"}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "costs.json")
	run, err := Open(t.Context(), config, OpenOptions{Costs: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	}()
	launches, err := run.Plan().Launches(partition.StepOptions{Microbatches: 2})
	if err != nil {
		t.Fatal(err)
	}
	tasks := timing.Tasks(run.Plan(), launches)
	for known := range len(tasks) + 1 {
		file, err := costs.Open(path, costs.ThisMachine())
		if err != nil {
			t.Fatal(err)
		}
		times := map[costs.Key]float64{}
		for _, x := range tasks[:known] {
			times[costs.SegmentKey(x.Variant.Graph, false, costs.On(run.run.Session().Planner.Specs, x.Device))] = 1
		}
		if err := file.Add(t.Context(), times); err != nil {
			t.Fatal(err)
		}
		p, err := run.run.Session().Predict(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if timed := p.Seconds > 1; timed != (p.Measured == len(p.Launches)) || known == 0 && timed || known == len(tasks) && !timed {
			t.Errorf("%d of %d times are known: %v", known, len(tasks), p)
		}
		if p, err := run.StepTime(t.Context()); err != nil || p.Measured > 0 {
			t.Errorf("a plan by arithmetic: %v, %v", p, err)
		}
	}
}

// Steps are timed where that is asked for, at once for all buckets, and then the prediction is by measured times.
func TestStepsAreTimed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.json")
	for i := range 2 {
		r := openTimed(t, path, "digits", "devices.use=cpu:2", "train.microbatches=2")
		timing, err := r.TimeSteps(t.Context())
		if err != nil || timing.Untimed != "" || (timing.Took > 0) != (i == 0) {
			t.Errorf("call %d: %+v, %v", i, timing, err)
		}
		if p, err := r.StepTime(t.Context()); err != nil || p.Measured < p.Count {
			t.Errorf("call %d: %v, %v", i, p, err)
		}
	}
	r := openTimed(t, path, "digits", "devices.use=null", "train.microbatches=2")
	if timing, err := r.TimeSteps(t.Context()); err != nil || timing != (StepTiming{}) {
		t.Errorf("where nothing computes: %+v, %v", timing, err)
	}
}

// Finished runs tell how far steps of their kind are from the prediction, once there are a few.
func TestRunsTellTheInterval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.json")
	for i := range 6 {
		r := openTimed(t, path, "digits", "train.steps=25")
		if _, err := r.TimeSteps(t.Context()); err != nil {
			t.Fatal(err)
		}
		p, err := r.StepTime(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text := r.StepsLike(p); (text != "") != (i >= 5) {
			t.Errorf("after %d runs: %q", i, text)
		}
		if _, err := r.Train(t.Context(), TrainOptions{Dir: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
	}
	r := openTimed(t, path, "digits", "train.microbatches=2")
	if _, err := r.TimeSteps(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err := r.StepTime(t.Context()); err != nil || r.StepsLike(p) == "" {
		t.Errorf("another model on the same device: %q, %v", r.StepsLike(p), err)
	}
}

// A training ends where another process has the lock of the file of times for good: its time is not kept, and its report is
// written.
func TestTrainingEndsWithoutTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.json")
	r := openTimed(t, path, "digits", "train.steps=25")
	if _, err := r.TimeSteps(t.Context()); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if got, err := osfile.Lock(lock, true); !got || err != nil {
		t.Fatal(got, err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := r.Train(t.Context(), TrainOptions{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.json")); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(path); err != nil || !slices.Equal(before, after) {
		t.Errorf("the file was written without its lock: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openTimed(t, path, "digits", "train.steps=25").Train(t.Context(), TrainOptions{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(path); err != nil || slices.Equal(before, after) {
		t.Errorf("no run is kept with the lock: %v", err)
	}
}

// openTimed opens a run with a file of times, until the test ends.
func openTimed(t *testing.T, costs, name string, set ...string) *Run {
	t.Helper()
	c, err := configs.Load(name, configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), c, OpenOptions{Costs: costs})
	if errors.Is(err, device.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestPredictedTraining compares, in turns, the time of a step as `trainer plan` predicts it without a flag with that of a
// training, on devices of one kind and of several.
func TestPredictedTraining(t *testing.T) {
	if os.Getenv("TEST_PREDICTION") == "" {
		t.Skip("needs a quiet machine: make predictions runs it")
	}
	for _, use := range []string{"cpu", "cpu:2", "opencl", "cpu,opencl"} {
		t.Run(use, func(t *testing.T) {
			var predicted, measured []float64
			for range 3 {
				r := openTimed(t, filepath.Join(t.TempDir(), "times.json"), "mnist-mlp", "devices.use="+use, "train.microbatches=4", "train.steps=100")
				if _, err := r.TimeSteps(t.Context()); err != nil {
					t.Fatal(err)
				}
				p, err := r.StepTime(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				report, err := r.Train(t.Context(), TrainOptions{Dir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				predicted, measured = append(predicted, 1e3*p.Seconds), append(measured, report.Throughput.StepMSP50)
			}
			slices.Sort(predicted)
			slices.Sort(measured)
			off := predicted[1]/measured[1] - 1
			t.Logf("predicted %.2f ms %.2f, measured %.2f ms: %+.0f%%", predicted[1], predicted, measured[1], 100*off)
			if math.Abs(off) > 0.15 {
				t.Errorf("predicted %.2f ms, measured %.2f ms", predicted[1], measured[1])
			}
		})
	}
}
