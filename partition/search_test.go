package partition

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/stop"
)

// TestMemoryMovesTheCut gives the first device too little for its half.
func TestMemoryMovesTheCut(t *testing.T) {
	s := chain(4, 32, 4, 1)
	free := mustPlan(t, s, PlanOptions{Devices: specs(2, 0)})
	if got := len(free.Stages[0].Blocks); got != 2 {
		t.Fatalf("%d blocks on the first of two equal devices", got)
	}
	devices := specs(2, 0)
	devices[0].MemoryBytes = total(free.Stages[0].Memory) - 1
	tight := mustPlan(t, s, PlanOptions{Devices: devices})
	if got := len(tight.Stages[0].Blocks); got != 1 {
		t.Errorf("%d blocks on a device that is too small for 2", got)
	}
}

// TestCutIsTheBest compares the search with trying every cut.
func TestCutIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &search{stop: stop.When(nil), o: PlanOptions{Schedule: "1f1b", Microbatches: 6}}
		blocks := rapid.IntRange(1, 6).Draw(t, "blocks")
		s.stages = rapid.IntRange(1, blocks).Draw(t, "stages")
		s.o.Devices = specs(rapid.IntRange(1, 3).Draw(t, "devices"), int64(rapid.IntRange(20, 80).Draw(t, "memory")))
		s.device = dealDevices(s.stages, len(s.o.Devices))
		s.flight = s.o.inFlight(s.device)
		s.allowed, s.flops, s.foot = []bool{true}, []int64{0}, map[[2]int]footprint{}
		for i := range blocks {
			s.allowed = append(s.allowed, true)
			s.flops = append(s.flops, s.flops[i]+int64(rapid.IntRange(0, 4).Draw(t, "flops")))
		}
		for lo := range blocks {
			for hi := lo + 1; hi <= blocks; hi++ {
				f := footprint{bytesIn: int64(rapid.IntRange(0, 5).Draw(t, "in")), perFlight: int64(rapid.IntRange(0, 5).Draw(t, "held"))}
				f.fixed[device.Weight] = int64(rapid.IntRange(0, 20).Draw(t, "weight"))
				s.foot[[2]int{lo, hi}] = f
			}
		}
		got, want := s.best(), bruteForce(s, []int{0})
		switch {
		case want == nil && got.time != s.leastTime():
			t.Fatalf("nothing fits: found %+v, the least time is %v", *got, s.leastTime())
		case want != nil && (got.time != want.time || got.cross != want.cross):
			t.Fatalf("found %+v, best is %+v", *got, *want)
		}
	})
}

// judge is the cost of a whole cut, nil if it does not fit.
func judge(s *search, cuts []int) *label {
	l := &label{}
	used := make([]int64, len(s.o.Devices))
	for stage := range s.stages {
		f := s.foot[[2]int{cuts[stage], cuts[stage+1]}]
		l.time = max(l.time, s.time(stage, cuts[stage], cuts[stage+1]))
		l.cross += f.bytesIn
		behind := s.device[s.stages-1] - s.device[stage] // devices
		used[s.device[stage]] += f.perFlight*int64(behind+1) + f.fixed[device.Weight]
	}
	if slices.Max(used) > s.o.Devices[0].MemoryBytes {
		return nil
	}
	return l
}

// bruteForce tries every way to go on from some cuts, the first block of each
// stage so far.
func bruteForce(s *search, cuts []int) *label {
	if len(cuts) == s.stages {
		return judge(s, append(slices.Clone(cuts), len(s.flops)-1))
	}
	var best *label
	for next := cuts[len(cuts)-1] + 1; next < len(s.flops)-1; next++ {
		l := bruteForce(s, append(slices.Clone(cuts), next))
		if l != nil && (best == nil || l.time < best.time || l.time == best.time && l.cross < best.cross) {
			best = l
		}
	}
	return best
}
