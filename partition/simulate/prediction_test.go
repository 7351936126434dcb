package simulate_test

import (
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/simulate"
	"github.com/berth-ml/berth/partition/speed"
	"github.com/berth-ml/berth/partition/step"
)

// everyRun is the time of each segment: forward and backward take as long as said.
func everyRun(seconds float64) speed.Seconds {
	return func(_ int, g *graph.Graph) (float64, bool) {
		if g.Nodes[0].Phase == graph.Update {
			return 0, true
		}
		return seconds, true
	}
}

// predict simulates steps of a chain of blocks, each a stage with phases of its own.
func predict(t *testing.T, blocks, microbatches int, speeds speed.Speeds) *simulate.Prediction {
	t.Helper()
	s := passes.EachBlock(blocks)
	s.Apart = true
	if speeds.Devices == nil {
		speeds.Devices = nets.Specs(blocks, 0)
	}
	launches := passes.Launches(t, s.Program(t, nets.Chain(blocks, 4, 2, microbatches)), step.Options{Microbatches: microbatches})
	x, err := simulate.Step(stop.When(nil), speeds, launches, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestPredictedPipeline checks the known length of a pipeline of S equal stages and
// M microbatches, of which S-1 are the bubble.
func TestPredictedPipeline(t *testing.T) {
	for _, c := range []struct{ stages, microbatches int }{{1, 3}, {2, 2}, {2, 8}, {3, 4}} {
		got := predict(t, c.stages, c.microbatches, speed.Speeds{Run: everyRun(1)})
		want := float64(2 * (c.microbatches + c.stages - 1))
		if math.Abs(got.Seconds-want) > 0.01*want || got.Measured != len(got.Launches) {
			t.Errorf("%d stages, %d microbatches: %v s for a step, want %v; %v", c.stages, c.microbatches, got.Seconds, want, got)
		}
		if bubble := float64(c.stages-1) / float64(c.microbatches+c.stages-1); math.Abs(got.Bubble-bubble) > 0.01 {
			t.Errorf("%d stages, %d microbatches: the bubble is %v, want %v", c.stages, c.microbatches, got.Bubble, bubble)
		}
	}
}

// Devices that both want all cores of their host run in turns: a step of two stages takes the sum of its launches. With cores
// enough for both, it is a pipeline.
func TestPredictedOnSharedCores(t *testing.T) {
	const microbatches = 4
	for _, c := range []struct {
		of   int
		want float64
	}{{2, 2 * 2 * microbatches}, {4, 2 * (microbatches + 1)}} {
		devices := nets.Specs(2, 0)
		for d := range devices {
			devices[d].Cores, devices[d].OfCores = 2, c.of
		}
		got := predict(t, 2, microbatches, speed.Speeds{Devices: devices, Run: everyRun(1)})
		if math.Abs(got.Seconds-c.want) > 0.01*c.want {
			t.Errorf("of %d cores: %v s for a step, want %v", c.of, got.Seconds, c.want)
		}
	}
}

// A slow link delays the stage behind it.
func TestPredictedCopies(t *testing.T) {
	devices := nets.Specs(2, 0)
	devices[1].LinkBytesPerS = 4 // of 32 bytes that cross forward, and as many backward
	got := predict(t, 2, 1, speed.Speeds{Devices: devices, Run: everyRun(1)})
	if len(got.Copies) < 2 || got.Seconds < 4+8+8 {
		t.Errorf("a step takes %v s, with copies %v", got.Seconds, got.Copies)
	}
	for _, c := range got.Copies {
		if c.From == c.To || c.End < c.Start {
			t.Errorf("copy %+v", c)
		}
	}
}

// Copies between devices of a kind that copies on its own do not pass through the host.
func TestHostedCopies(t *testing.T) {
	for _, c := range []struct {
		kind  string
		peers bool
		want  bool
	}{{"cpu", true, false}, {"cpu", false, true}, {"other", true, true}} {
		devices := nets.Specs(2, 0)
		devices[0].PeerCopy, devices[1].PeerCopy, devices[1].Kind = c.peers, c.peers, c.kind
		got := predict(t, 2, 1, speed.Speeds{Devices: devices})
		if len(got.Copies) == 0 {
			t.Fatal(got)
		}
		for _, x := range got.Copies {
			if x.Hosted != c.want {
				t.Errorf("to kind %s, peers %v: hosted is %v", c.kind, c.peers, x.Hosted)
			}
		}
	}
}

func TestPredictionSaysItsSource(t *testing.T) {
	if got := predict(t, 2, 2, speed.Speeds{}); got.Measured != 0 || !strings.Contains(got.String(), "by arithmetic and bytes") {
		t.Error(got)
	}
}

// Op by op, a segment takes its measured time, but no less than its calls do. Without one,
// each op takes its work or its call, the longer of the two.
func TestPredictedOps(t *testing.T) {
	o := speed.Speeds{OpByOp: true, Run: func(int, *graph.Graph) (float64, bool) { return 3, true }}
	calls, launches := 0, predict(t, 1, 1, o).Launches
	for _, l := range launches {
		calls += speed.CallsOf(l.Launch.Variant.Graph)
	}
	n := float64(len(launches))
	for _, c := range []struct{ call, want float64 }{{1e-9, 3 * n}, {1000, 1000 * float64(calls)}} {
		o.Call = func(int) (float64, bool) { return c.call, true }
		if p := predict(t, 1, 1, o); math.Abs(p.Seconds-c.want) > 0.01*c.want || p.Measured != len(p.Launches) {
			t.Errorf("%v s where a call takes %v, want %v", p.Seconds, c.call, c.want)
		}
	}
	o.Run = nil
	if p := predict(t, 1, 1, o); math.Abs(p.Seconds-1000*float64(calls)) > 0.01*p.Seconds || p.Measured != 0 {
		t.Errorf("%d calls of 1000 s take %v s", calls, p.Seconds)
	}
	o.Call = nil
	if few := predict(t, 1, 1, o).Seconds; few >= 1 {
		t.Errorf("by arithmetic %v s", few)
	}
}

// Launches of a device do not overlap, and neither do copies to it.
func TestLaunchesTakeTurns(t *testing.T) {
	devices := nets.Specs(3, 0)
	for d := range devices {
		devices[d].LinkBytesPerS = 8
	}
	got := predict(t, 3, 4, speed.Speeds{Devices: devices, Run: everyRun(1)})
	free, busy := make([]float64, len(devices)), make([]float64, len(devices))
	for _, l := range got.Launches {
		if l.Start < free[l.Device] || l.End < l.Start+l.Waited() {
			t.Errorf("%s runs from %v to %v and waits %v; its device is free from %v", l.Launch.Name(), l.Start, l.End, l.Waited(), free[l.Device])
		}
		at := l.Start
		for _, w := range l.Waits {
			if w.Start < at || w.End <= w.Start || w.End > l.End {
				t.Errorf("%s runs from %v to %v and waits from %v to %v", l.Launch.Name(), l.Start, l.End, w.Start, w.End)
			}
			at = w.End
		}
		free[l.Device], busy[l.Device] = l.End, busy[l.Device]+l.End-l.Start-l.Waited()
	}
	link := make([]float64, len(devices))
	for _, c := range got.Copies {
		if c.Start < link[c.To] {
			t.Errorf("%s is copied to device %d from %v on, where another copy ends at %v", c.Value.Name, c.To, c.Start, link[c.To])
		}
		link[c.To] = c.End
	}
	sums, err := simulate.Busy(speed.Speeds{Devices: devices, Run: everyRun(1)}, func(visit func(*step.Launch)) error {
		for _, l := range launchesOf(got) {
			visit(&l)
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for d := range sums {
		if math.Abs(sums[d]-busy[d]) > 1e-9 {
			t.Errorf("device %d works %v s, its launches take %v s", d, sums[d], busy[d])
		}
	}
}

// launchesOf are the launches of a prediction.
func launchesOf(p *simulate.Prediction) (list []step.Launch) {
	for _, l := range p.Launches {
		list = append(list, l.Launch)
	}
	return list
}
