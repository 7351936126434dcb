package partition

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/segment"
)

// TestForecastCoversTheLastStep checks the floor against the leases of all launches of a
// run, and that neither step has a higher peak than the forecast.
func TestForecastCoversTheLastStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := nets.Draw(t)
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		o := drawOptions(t, s)
		o.LastMicrobatches = rapid.IntRange(0, s.Microbatches).Draw(t, "last")
		p, err := New(g, o)
		if err != nil {
			t.Fatal(err)
		}
		floors := floorsAndPeaks(t, p)
		r, err := p.forecaster().Floors(nil)
		if err != nil || r == nil {
			t.Fatal(r, err)
		}
		for d, f := range r.Memory {
			if f.Floor != floors[d] {
				t.Errorf("device %d: of one launch for each variant, the floor is %d, of all launches %d", d, f.Floor, floors[d])
			}
		}
	})
}

// floorsAndPeaks compares a plan's forecasts with the traces of its steps, and returns
// the floors.
func floorsAndPeaks(t interface{ Errorf(string, ...any) }, p *Plan) []int64 {
	floors := make([]int64, len(p.Memory))
	for _, size := range p.stepSizes() {
		launches, err := p.Launches(StepOptions{Microbatches: size})
		if err != nil {
			t.Errorf("%v", err)
		}
		traces := forecast.TraceLaunches(stop.When(nil), len(p.Memory), launches)
		forecast.AddScratch(stop.When(nil), traces, launches, func(l *Launch) int64 { return forecast.Temporaries(l.Variant) })
		for d, tr := range traces {
			floors[d] = max(floors[d], tr.Floor())
			if r := paging.Replay(&tr.Trace, 0); r.Peak > p.Memory[d].Peak {
				t.Errorf("a step of %d microbatches has a peak of %d on device %d, the plan says %d", size, r.Peak, d, p.Memory[d].Peak)
			}
		}
	}
	for d, f := range p.Memory {
		if f.Floor != floors[d] {
			t.Errorf("the floor of device %d is %d, the plan says %d", d, floors[d], f.Floor)
		}
	}
	return floors
}

// The second of two replicas adds microbatches 2 and 3 in a last step of 4, and none
// together in a full step of 5.
func TestFloorOfReplicasInTheLastStep(t *testing.T) {
	of := func(last int) []int64 {
		p := mustPlan(t, nets.Chain(2, 16, 1, 5), PlanOptions{Devices: nets.Specs(2, 0), Replicas: 2, Reduction: ReduceTree, LastMicrobatches: last, grains: []segment.Grain{segment.ByNode}})
		return floorsAndPeaks(t, p)
	}
	if without, with := of(0), of(4); slices.Equal(without, with) || with[1] <= without[1] {
		t.Errorf("floors are %d, and %d with a last step of 4 microbatches", without, with)
	}
}

// One of three workers has two stages, and takes turns by the number of microbatches: device 2
// has a higher peak in a last step of 4 than in a full step of 5.
func TestPeakOfInterleavedLastStep(t *testing.T) {
	net := nets.Chain(5, 1, 1, 5)
	for i, skip := range []int{-1, 0, 0, 0, 2} {
		net.Blocks[i].Skip, net.Blocks[i].Tied = skip, 0
	}
	floorsAndPeaks(t, mustPlan(t, net, PlanOptions{
		Devices: nets.Specs(3, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2", "b3"}, {"b4"}}, Schedule: "interleaved", Reduction: ReduceTree,
		LastMicrobatches: 4, grains: []segment.Grain{segment.ByBlock},
	}))
}
