package forecast_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/step"
)

// forecaster forecasts the steps of a setup on devices with so many bytes each, 0 for no limit.
func forecaster(s passes.Setup, p *step.Program, limit int64, sizes ...int) *forecast.Forecaster {
	return forecast.New(p, forecast.Options{Specs: nets.Specs(s.Count(), limit), Sizes: sizes, Replicas: max(1, s.Replicas)})
}

// mustForecast is a whole forecast without a rival.
func mustForecast(t passes.T, f *forecast.Forecaster) []forecast.Forecast {
	t.Helper()
	r, err := f.Forecast(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Memory
}

// scratch is the working memory of a launch, where no device estimates it.
func scratch(l *step.Launch) int64 { return forecast.Temporaries(l.Variant) }

// TestOneDeviceByHand compares forecasts with a count of the tensors on one device: variables are
// always there, others from the first launch that uses them to the last. A launch needs its own
// tensors and its scratch at once.
func TestOneDeviceByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		s.Devices, s.Replicas = 1, 1
		p := s.Program(t, n)
		launches := passes.Launches(t, p, step.Options{Microbatches: n.Microbatches})
		bytesOf := func(v *graph.Value) int64 { return paging.Rounded(v.Meta.Bytes()) }
		here := map[step.ID]int64{}
		for _, l := range launches {
			for _, x := range l.Needs {
				if x.Value.Kind == graph.Variable || x.Value.PerMicrobatch {
					here[x.ID()] = bytesOf(x.Value)
				}
			}
		}
		var peak, floor int64
		for i := range launches {
			l := &launches[i]
			own := paging.Rounded(scratch(l))
			all := own
			for _, x := range l.Needs {
				here[x.ID()] = bytesOf(x.Value)
				own += bytesOf(x.Value)
			}
			for _, b := range here {
				all += b
			}
			peak, floor = max(peak, all), max(floor, own)
			for _, k := range l.Over {
				delete(here, l.Needs[k].ID())
			}
		}
		f := mustForecast(t, forecaster(s, p, 0, n.Microbatches))[0]
		if f.Peak != peak || f.Floor != floor || nodes.Total(f.PeakBy) != peak || nodes.Total(f.FloorBy) != floor {
			t.Fatalf("a peak of %d, a floor of %d by hand; %+v", peak, floor, f)
		}
		if !slices.ContainsFunc(launches, func(l step.Launch) bool { return l.Name() == f.FloorOf }) {
			t.Fatalf("the floor is that of %q, which is no launch", f.FloorOf)
		}
	})
}

// TestRivals: a forecast is left out where it cannot be better than another plan's cost, and only
// there.
func TestRivals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		p := s.Program(t, n)
		limit := int64(rapid.SampledFrom([]int{0, 512, 2048, 1 << 20}).Draw(t, "limit"))
		own := forecast.ShortageOf(mustForecast(t, forecaster(s, p, limit, n.Microbatches)))
		for _, rival := range []forecast.Shortage{own, {Seconds: own.Seconds / 2}, {Missing: own.Missing, Seconds: 2*own.Seconds + 1}} {
			r, err := forecaster(s, p, limit, n.Microbatches).Forecast(false, &rival)
			if err != nil {
				t.Fatal(err)
			}
			if r == nil && own.Less(rival) {
				t.Fatalf("%+v is left out for %+v", own, rival)
			}
			if r != nil && forecast.ShortageOf(r.Memory) != own {
				t.Fatalf("beside a rival it costs %+v, alone %+v", forecast.ShortageOf(r.Memory), own)
			}
		}
	})
}

// An error of a device's estimate names the segment and the device.
func TestEstimatesFail(t *testing.T) {
	no := errors.New("no kernel")
	s := passes.EachBlock(2)
	f := forecaster(s, s.Program(t, nets.Chain(2, 4, 2, 2)), 0, 2)
	f.Estimate = func(d int, g *graph.Graph, _ device.CompileOptions) (m device.Memory, err error) {
		if d == 1 {
			err = no
		}
		return m, err
	}
	if _, err := f.Forecast(false, nil); !errors.Is(err, no) || !strings.Contains(err.Error(), "s1.F on cpu:1") {
		t.Error(err)
	}
}

// TestTemporaries compares the bytes inside a variant with a count at each of its nodes: a value
// is there from its node to its last reader, unless it is an output, which has memory of its own.
func TestTemporaries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		for _, x := range passes.Draw(t, n).Program(t, n).Segments {
			g, most := x.First.Graph, int64(0)
			for now := range g.Nodes {
				var live int64
				for made, node := range g.Nodes[:now+1] {
					for _, v := range node.Out {
						last := made
						for i, r := range g.Nodes {
							if slices.Contains(r.In, v) {
								last = i
							}
						}
						if last >= now && !slices.Contains(g.Outputs, v) {
							live += paging.Rounded(v.Meta.Bytes())
						}
					}
				}
				most = max(most, live)
			}
			if got := forecast.Temporaries(&x.First); got != most {
				t.Fatalf("%s: %d bytes, by hand %d", x.Name, got, most)
			}
		}
	})
}

// TestForecastCoversTheLastStep checks the floor against the leases of all launches of a
// run, and that neither step has a higher peak than the forecast.
func TestForecastCoversTheLastStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		sizes := []int{n.Microbatches}
		if last := rapid.IntRange(0, n.Microbatches-1).Draw(t, "last"); last > 0 {
			sizes = append(sizes, last)
		}
		p := s.Program(t, n)
		floors := floorsAndPeaks(t, s, p, sizes)
		r, err := forecaster(s, p, 0, sizes...).Floors(nil)
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

// TestForecastOfRank: a rank forecasts of its own part what it does of all launches.
func TestForecastOfRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		p := s.Program(t, n)
		of := make([]int, s.Count())
		for d := range of {
			of[d] = rapid.IntRange(0, d).Draw(t, "rank")
		}
		if rapid.Bool().Draw(t, "planned for ranks") {
			p.Ranks = of
		}
		sizes := []int{n.Microbatches}
		if last := rapid.IntRange(0, n.Microbatches-1).Draw(t, "last"); last > 0 {
			sizes = append(sizes, last)
		}
		limit := int64(rapid.SampledFrom([]int{0, 512, 2048}).Draw(t, "limit"))
		all := mustForecast(t, forecaster(s, p, limit, sizes...))
		for rank := range s.Count() {
			f := forecaster(s, p, limit, sizes...)
			f.Of, f.Rank = of, rank
			for d, m := range mustForecast(t, f) {
				if of[d] == rank && m != all[d] {
					t.Fatalf("rank %d forecasts %+v, of all launches %+v", rank, m, all[d])
				}
			}
		}
	})
}

// reporter is a *testing.T or a *rapid.T that goes on after an error.
type reporter interface {
	passes.T
	Errorf(format string, args ...any)
}

// floorsAndPeaks compares forecasts with the traces of steps, and returns the floors.
func floorsAndPeaks(t reporter, s passes.Setup, p *step.Program, sizes []int) []int64 {
	t.Helper()
	memory := mustForecast(t, forecaster(s, p, 0, sizes...))
	floors := make([]int64, len(memory))
	for _, size := range sizes {
		launches := passes.Launches(t, p, step.Options{Microbatches: size})
		traces := forecast.TraceLaunches(stop.When(nil), len(memory), launches)
		forecast.AddScratch(stop.When(nil), traces, launches, scratch)
		for d, tr := range traces {
			floors[d] = max(floors[d], tr.Floor())
			if r := paging.Replay(&tr.Trace, 0); r.Peak > memory[d].Peak {
				t.Errorf("a step of %d microbatches has a peak of %d on device %d, the forecast says %d", size, r.Peak, d, memory[d].Peak)
			}
		}
	}
	for d, f := range memory {
		if f.Floor != floors[d] {
			t.Errorf("the floor of device %d is %d, the forecast says %d", d, floors[d], f.Floor)
		}
	}
	return floors
}

// The second of two replicas adds microbatches 2 and 3 in a last step of 4, and none
// together in a full step of 5.
func TestFloorOfReplicasInTheLastStep(t *testing.T) {
	s := passes.Setup{Begins: []int{0}, Replicas: 2, Tree: true, Grain: segment.ByNode}
	p := s.Program(t, nets.Chain(2, 16, 1, 5))
	if without, with := floorsAndPeaks(t, s, p, []int{5}), floorsAndPeaks(t, s, p, []int{5, 4}); slices.Equal(without, with) || with[1] <= without[1] {
		t.Errorf("floors are %d, and %d with a last step of 4 microbatches", without, with)
	}
}

// A device keeps the constants of microbatches of both steps: the second of two replicas has 3 and 4
// in a full step of 5, 2 and 3 in a last one of 4.
func TestConstantsOfBothSteps(t *testing.T) {
	n := nets.Chain(2, 16, 4, 5)
	n.Dropout = true
	s := passes.Setup{Begins: []int{0}, Replicas: 2, Tree: true, Grain: segment.ByBlock}
	p := s.Program(t, n)
	full, both := mustForecast(t, forecaster(s, p, 0, 5))[1], mustForecast(t, forecaster(s, p, 0, 5, 4))[1]
	if full.PeakBy[device.Input]+paging.Align != both.PeakBy[device.Input] {
		t.Errorf("inputs take %d bytes, and with a last step of 4 microbatches %d", full.PeakBy[device.Input], both.PeakBy[device.Input])
	}
}

// One of three workers has two stages, and takes turns by the number of microbatches: device 2
// has a higher peak in a last step of 4 than in a full step of 5.
func TestPeakOfInterleavedLastStep(t *testing.T) {
	net := nets.Chain(5, 1, 1, 5)
	for i, skip := range []int{-1, 0, 0, 0, 2} {
		net.Blocks[i].Skip, net.Blocks[i].Tied = skip, 0
	}
	s := passes.Setup{Begins: []int{0, 1, 2, 4}, Devices: 3, Schedule: "interleaved", Tree: true, Grain: segment.ByBlock}
	p := s.Program(t, net)
	floorsAndPeaks(t, s, p, []int{5, 4})
	if full, both := mustForecast(t, forecaster(s, p, 0, 5)), mustForecast(t, forecaster(s, p, 0, 5, 4)); slices.EqualFunc(full, both, func(a, b forecast.Forecast) bool { return a.Peak == b.Peak }) {
		t.Error("the last step has no higher peak, and so tests nothing")
	}
}

// TestShortages: fewer missing bytes count more than any time.
func TestShortages(t *testing.T) {
	fits, moves, lacks := forecast.Shortage{Seconds: 2}, forecast.Shortage{Moved: 10, Seconds: 3}, forecast.Shortage{Missing: 1, Seconds: 1}
	list := []forecast.Shortage{fits, moves, lacks}
	for i, a := range list {
		for j, b := range list {
			if a.Less(b) != (i < j) {
				t.Errorf("%+v is less than %+v: %v", a, b, a.Less(b))
			}
		}
		if a.None() != (i == 0) {
			t.Errorf("%+v is none: %v", a, a.None())
		}
	}
	memory := []forecast.Forecast{{Floor: 5, Limit: 7, Peak: 9, Loaded: 1, Spilled: 2, Seconds: 3}, {Floor: 10, Limit: 7, Peak: 12, Seconds: 1}, {Floor: 10, Peak: 12}}
	if got, want := forecast.ShortageOf(memory), (forecast.Shortage{Missing: 3, Moved: 3, Seconds: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestCover takes the larger floor and peak of two steps, each with its own usages.
func TestCover(t *testing.T) {
	f := forecast.Forecast{Floor: 5, FloorOf: "a", Peak: 20, Host: 1}
	f.FloorBy[device.Grad], f.PeakBy[device.Grad] = 5, 20
	other := forecast.Forecast{Floor: 6, FloorOf: "b", Peak: 19, Host: 2}
	other.FloorBy[device.Weight], other.PeakBy[device.Weight] = 6, 19
	want := f
	want.Floor, want.FloorBy, want.FloorOf, want.Host = 6, other.FloorBy, "b", 2
	if f.Cover(other); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
}
