package bench

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition"
)

// predictedKinds are plans of every kind that bench can measure.
var predictedKinds = []RunOptions{
	{Devices: "cpu"},
	{Devices: "cpu", Microbatches: 4},
	{Devices: "cpu", OpByOp: true},
	{Devices: "cpu", Microbatches: 2, DeviceMemory: configs.Memory{Percent: 60}},
	{Devices: "cpu:2", Microbatches: 4},
	{Devices: "cpu:2", Microbatches: 4, Schedule: "gpipe"},
	{Devices: "cpu:2", Microbatches: 4, Schedule: "zb-h1"},
	{Devices: "cpu:2", Microbatches: 4, OpByOp: true},
	{Devices: "cpu:2", Microbatches: 4, Reduction: partition.ReduceTree, Replicas: 2},
	{Devices: "cpu:2", Microbatches: 4, Reduction: partition.ReduceTree, Replicas: 2, Shard: partition.ShardOptimizer},
	{Devices: "cpu:2", Microbatches: 4, Reduction: partition.ReduceTree, Replicas: 2, DeviceMemory: configs.Memory{Percent: 45}},
	{Devices: "opencl"},
	{Devices: "opencl", Microbatches: 2, DeviceMemory: configs.Memory{Percent: 60}},
}

// TestPredictedStep compares the predicted time of a step with the measured one for each kind of plan, in
// turns, by their medians: they differ by at most 15 %. Devices of several kinds are TestPredictedTraining's.
func TestPredictedStep(t *testing.T) {
	names := strings.Fields(os.Getenv("TEST_PREDICTION"))
	if len(names) == 0 {
		t.Skip("needs a quiet machine: TEST_PREDICTION=\"mlp cnn gpt-nano gpt-small gpt2\" runs it, as make predictions does")
	}
	for _, name := range names {
		for _, o := range predictedKinds {
			comparePrediction(t, name, o)
		}
	}
}

func comparePrediction(t *testing.T, name string, o RunOptions) {
	t.Helper()
	w, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	if o, err = o.checked(); err != nil {
		t.Fatal(err)
	}
	var predicted, measured []float64
	for range 3 {
		o.costs = filepath.Join(t.TempDir(), "times.json")
		s, err := open(t.Context(), w, o)
		if errors.Is(err, device.ErrAbsent) || errors.Is(err, partition.ErrStages) || errors.Is(err, partition.ErrMemory) {
			t.Logf("%s on %s: there is no such plan here: %v", name, o.Devices, err)
			return
		}
		if err != nil {
			t.Errorf("%s on %s: %v", name, o.Devices, err)
			return
		}
		p, err := s.timed(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if p.Measured != len(p.Launches) {
			t.Errorf("%d of %d launches are measured", p.Measured, len(p.Launches))
		}
		predicted = append(predicted, 1e3*p.Seconds)
		measured = append(measured, s.steps(t)...)
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(predicted)
	slices.Sort(measured)
	got, want := predicted[len(predicted)/2], measured[len(measured)/2]
	t.Logf("%s on %s, %d microbatches, schedule %q, %d replicas, shard %q, op by op %v, %g%% of the memory: predicted %.2f ms %.2f, measured %.2f ms: %+.0f%%",
		name, o.Devices, o.Microbatches, o.Schedule, o.Replicas, o.Shard, o.OpByOp, o.DeviceMemory.Percent, got, predicted, want, 100*(got/want-1))
	if math.Abs(got/want-1) > 0.15 {
		t.Errorf("%s on %s: predicted %.2f ms, measured %.2f ms", name, o.Devices, got, want)
	}
}

// steps takes steps for a third of a second, and gives their milliseconds.
func (s *training) steps(t *testing.T) (ms []float64) {
	t.Helper()
	step := func() {
		t.Helper()
		if err := s.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		step()
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	s.ends.restart(1 << 16)
	for begin, n := time.Now(), 0; n < 4 || time.Since(begin) < 300*time.Millisecond; n++ {
		step()
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.ends.times() {
		ms = append(ms, 1e3*d.Seconds())
	}
	return ms
}
