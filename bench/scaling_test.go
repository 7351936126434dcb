package bench

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/svg/svgtest"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
)

func TestWays(t *testing.T) {
	devices, replicas := map[int]bool{}, map[int]bool{}
	for i, w := range ways(6) {
		devices[w.Devices], replicas[w.Replicas] = true, true
		if (i == 0) != (w.Devices == 1) || w.Replicas > 1 && w.Reduction != partition.ReduceTree || w.Devices%w.Replicas != 0 {
			t.Errorf("way %d: %+v", i, w)
		}
	}
	if len(devices) != 4 || devices[3] || devices[5] || !replicas[2] || !replicas[6] {
		t.Errorf("devices %v, replicas %v", devices, replicas)
	}
}

// The table and the chart of ways that were measured.
func TestScalingOutput(t *testing.T) {
	s := Scaling{Workload: "mlp", About: "a <b>", Batch: 8, Microbatches: 4, Ways: []Way{
		{Devices: 1, Threads: 2, Schedule: "1f1b", Stages: 1, Replicas: 1, Shard: partition.ShardNone, StepMS: 10, SpeedUp: 1, PredictedSpeedUp: 1, KernelMS: 9.75, BesideMS: 0.25},
		{Devices: 2, Threads: 2, Schedule: "zb-h1", Stages: 2, Replicas: 1, Shard: partition.ShardNone, StepMS: 6.25, SpeedUp: 1.6, PredictedSpeedUp: 1.75, BubbleMeasured: 0.2, BubbleSimulated: 0.125, PeerBytes: 3 << 20},
		{Devices: 2, Threads: 2, Schedule: "1f1b", Stages: 1, Replicas: 2, Shard: partition.ShardOptimizer, StepMS: 5, SpeedUp: 2, PredictedSpeedUp: 2},
	}}
	var text bytes.Buffer
	if err := WriteScaling(&text, s, math.MaxInt); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mlp: a <b>, batch 8 in 4 microbatches", "2 threads for each device", "zb-h1", "6.25", "1.60", "1.75", "20%", "12%", "3.0 MiB", "250 µs", "optimizer"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	svg := s.SVG()
	for _, want := range []string{"2 devices, zb-h1", "2 devices, 2 replicas, optimizer sharded", "1.60", "4 microbatches, 2 threads"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	svgtest.Check(t, svg)
}

func TestScalingRefuses(t *testing.T) {
	w, err := Lookup("mlp")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []RunOptions{{}, {Devices: "cpu"}, {Devices: "cpu:2", Microbatches: 3}, {Devices: "null:2"}, {Devices: "cpu:2", Threads: -1}} {
		_, err := MeasureScaling(t.Context(), w, o, func(text string) { t.Error(text) })
		if !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestMeasureScaling measures each way on two devices.
func TestMeasureScaling(t *testing.T) {
	if !testall.Wanted() {
		t.Skip("takes seconds: TEST_ALL=1 runs it")
	}
	w, err := Lookup("mlp")
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	s, err := MeasureScaling(t.Context(), w, RunOptions{Devices: "cpu:2", Threads: 2, Microbatches: 4, Steps: 3}, func(text string) { told.WriteString(text) })
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Ways) != len(ways(2)) || strings.Count(told.String(), "a step") != len(s.Ways) {
		t.Errorf("%d of %d ways; told:\n%s", len(s.Ways), len(ways(2)), told.String())
	}
	hashes := map[partition.Reduction]string{}
	for _, x := range s.Ways {
		if h := hashes[x.Reduction]; len(x.WeightsSHA256) != 64 || h != "" && h != x.WeightsSHA256 {
			t.Errorf("%s: weights %q, of another way %q", x.Schedule, x.WeightsSHA256, h)
		}
		hashes[x.Reduction] = x.WeightsSHA256
		if x.Threads != 1 || x.Steps != 3 || x.StepMS <= 0 || x.PredictedMS <= 0 || x.KernelMS <= 0 || x.BatchBytes == 0 || (x.PeerBytes == 0) != (x.Devices == 1) || x.Stages*x.Replicas < x.Devices {
			t.Errorf("%+v", x)
		}
	}
}
