package bench

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// TestProfileAddsUp checks that every kernel of every step is there once: a
// device never runs two at a time, and together they do the model's arithmetic.
func TestProfileAddsUp(t *testing.T) {
	s, m := measured(t, RunOptions{Devices: "cpu", Threads: 1, Profile: true})
	var steps time.Duration
	for _, d := range m.times {
		steps += d
	}
	each := float64(steps) / float64(len(m.times)) / 1e6
	ms, share, flops := 0.0, 0.0, 0.0
	for i, k := range s.kernels.perStep(len(m.times)) {
		if k.Calls != math.Trunc(k.Calls) || k.MS <= 0 || k.Kind == "" {
			t.Errorf("kind %d is %+v", i, k)
		}
		ms, share, flops = ms+k.MS, share+k.Share, flops+k.Gflops*k.MS*1e6
	}
	if ms > each {
		t.Errorf("kernels take %v ms of a step of %v", ms, each)
	}
	if math.Abs(share-1) > 1e-9 {
		t.Errorf("shares sum to %v", share)
	}
	if least := float64(Flops(s.graph)); flops < 0.999*least {
		t.Errorf("kernels do %v flops a step, which has %v", flops, least)
	}
}

// TestStepsAllocateNothing holds with and without a profile, and where tensors
// leave a device that is full and move within it. The runtime itself allocates now
// and then, and memory for reuse gathers in the first steps.
func TestStepsAllocateNothing(t *testing.T) {
	for name, o := range map[string]RunOptions{
		"plain":   {},
		"profile": {Profile: true},
		"spills":  {Microbatches: 4, DeviceMemory: configs.Memory{Percent: 65}},
	} {
		o.Devices, o.Threads = "cpu", 2
		s, m := measured(t, o)
		for range 4 { // other tests may leave work to the runtime
			if m.allocsPerStep <= 3 {
				break
			}
			s, m = measured(t, o)
		}
		if m.allocsPerStep > 3 {
			t.Errorf("%s: %v allocations a step", name, m.allocsPerStep)
		}
		if got := s.kernels.perStep(1); (got != nil) != o.Profile {
			t.Errorf("%s: kernels are %v", name, got)
		}
		if moves := s.on.Plan.Memory[0].Moved() > 0; moves != (o.DeviceMemory.Percent > 0) {
			t.Errorf("%s: the plan moves %d bytes", name, s.on.Plan.Memory[0].Moved())
		}
	}
}

// measured runs 30 steps of mlp.
func measured(t *testing.T, o RunOptions) (*training, measurement) {
	t.Helper()
	w, err := Lookup("mlp")
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.finish(), s.close()); err != nil {
			t.Error(err)
		}
	}()
	m, err := measure(t.Context(), s, RunOptions{Steps: 30})
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

func TestKernelTimes(t *testing.T) {
	var k kernelTimes
	product := &device.Work{Name: "matmul", Cost: graph.Cost{Flops: 2e6, Bytes: 1e6}}
	other := &device.Work{Name: "matmul", Cost: graph.Cost{Flops: 4e6, Bytes: 1e6}}
	now := time.Now()
	add := func(w *device.Work, took time.Duration) {
		k.add(device.KernelSpan{Work: w, Start: now, End: now.Add(took)})
	}
	for _, w := range []*device.Work{product, other, {Name: "relu"}} {
		add(w, time.Second) // to be forgotten
	}
	k.restart()
	for range 2 {
		add(product, time.Millisecond)
		add(other, 2*time.Millisecond)
	}
	add(&device.Work{Name: "add", Cost: graph.Cost{Bytes: 3e6}}, 6*time.Millisecond)
	got := k.perStep(2)
	want := []KernelTime{
		{Kind: "add", Calls: 0.5, MS: 3, Share: 0.5, GBytesPerS: 0.5},
		{Kind: "matmul", Calls: 2, MS: 3, Share: 0.5, Gflops: 2, GBytesPerS: 4.0 / 6},
	}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { add(product, time.Millisecond) }); n > 0 {
		t.Errorf("%v allocations for a kernel that is known", n)
	}
}
