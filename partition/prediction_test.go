package partition

import (
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/speed"
)

// everyRun is the time of each segment: forward and backward take as long as said.
func everyRun(seconds float64) Seconds {
	return func(_ int, g *graph.Graph) (float64, bool) {
		if g.Nodes[0].Phase == graph.Update {
			return 0, true
		}
		return seconds, true
	}
}

// TestPredictedPipeline checks the known length of a pipeline of S equal stages and
// M microbatches, of which S-1 are the bubble.
func TestPredictedPipeline(t *testing.T) {
	for _, c := range []struct{ stages, microbatches int }{{1, 3}, {2, 2}, {2, 8}, {3, 4}} {
		o := PlanOptions{Devices: nets.Specs(c.stages, 0), Microbatches: c.microbatches, Apart: true, Seconds: everyRun(1)}
		p := mustPlan(t, nets.Chain(c.stages, 4, 2, c.microbatches), o)
		got, err := p.Predict(nil)
		if err != nil {
			t.Fatal(err)
		}
		want := float64(2 * (c.microbatches + c.stages - 1))
		if math.Abs(got.Seconds-want) > 0.01*want || got.Measured != len(got.Launches) {
			t.Errorf("%d stages, %d microbatches: %v s for a step, want %v; %v", c.stages, c.microbatches, got.Seconds, want, got)
		}
		if bubble := float64(c.stages-1) / float64(c.microbatches+c.stages-1); math.Abs(got.Bubble-bubble) > 0.01 {
			t.Errorf("%d stages, %d microbatches: the bubble is %v, want %v", c.stages, c.microbatches, got.Bubble, bubble)
		}
	}
}

// A slow link delays the stage behind it.
func TestPredictedCopies(t *testing.T) {
	devices := nets.Specs(2, 0)
	devices[1].LinkBytesPerS = 4 // of 32 bytes that cross forward, and as many backward
	p := mustPlan(t, nets.Chain(2, 4, 2, 1), PlanOptions{Devices: devices, Apart: true, Seconds: everyRun(1)})
	got, err := p.Predict(nil)
	if err != nil {
		t.Fatal(err)
	}
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
		got, err := mustPlan(t, nets.Chain(2, 4, 2, 1), PlanOptions{Devices: devices, Apart: true}).Predict(nil)
		if err != nil || len(got.Copies) == 0 {
			t.Fatal(got, err)
		}
		for _, x := range got.Copies {
			if x.Hosted != c.want {
				t.Errorf("to kind %s, peers %v: hosted is %v", c.kind, c.peers, x.Hosted)
			}
		}
	}
}

func TestPredictionSaysItsSource(t *testing.T) {
	p := mustPlan(t, nets.Chain(2, 4, 2, 2), PlanOptions{Devices: nets.Specs(2, 0)})
	got, err := p.Predict(nil)
	if err != nil || got.Measured != 0 || !strings.Contains(got.String(), "by arithmetic and bytes") {
		t.Error(got, err)
	}
}

// Values that are computed a second time lengthen a step, though fewer tensors cross from
// segment to segment. On one device, the plan's table and the prediction agree.
func TestRecomputationTakesTime(t *testing.T) {
	devices, before := nets.Specs(1, 0), 0.0
	devices[0].FlopsPerSecond, devices[0].LinkBytesPerS = 200e9, 10e9
	for _, r := range []Recompute{"", RecomputeCheap, RecomputeBlock} {
		p := mustCut(t, deepGPT(t), PlanOptions{Devices: devices, Microbatches: 1, Recompute: r})
		got, err := p.Predict(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Seconds <= before {
			t.Errorf("recompute %q: %v s a step, with less of it %v s", r, got.Seconds, before)
		}
		if busy := p.busySeconds()[0]; math.Abs(busy/got.Seconds-1) > 1e-9 || math.Abs(p.Memory[0].Seconds/busy-1) > 1e-9 {
			t.Errorf("recompute %q: the table says %v s, the forecast %v s, the prediction %v s", r, busy, p.Memory[0].Seconds, got.Seconds)
		}
		before = got.Seconds
	}
}

// Op by op, a segment takes its measured time, but no less than its calls do. Without one,
// each op takes its work or its call, the longer of the two.
func TestPredictedOps(t *testing.T) {
	predict := func(o PlanOptions) *Prediction {
		t.Helper()
		p, err := mustPlan(t, nets.Chain(1, 4, 2, 1), o).Predict(nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	o := PlanOptions{Devices: nets.Specs(1, 0), Apart: true, OpByOp: true, Seconds: func(int, *graph.Graph) (float64, bool) { return 3, true }}
	calls := 0
	for _, l := range predict(o).Launches {
		calls += speed.CallsOf(l.Launch.Variant.Graph)
	}
	n := float64(len(predict(o).Launches))
	for _, c := range []struct{ call, want float64 }{{1e-9, 3 * n}, {1000, 1000 * float64(calls)}} {
		o.CallSeconds = func(int) (float64, bool) { return c.call, true }
		if p := predict(o); math.Abs(p.Seconds-c.want) > 0.01*c.want || p.Measured != len(p.Launches) {
			t.Errorf("%v s where a call takes %v, want %v", p.Seconds, c.call, c.want)
		}
	}
	o.Seconds = nil
	if p := predict(o); math.Abs(p.Seconds-1000*float64(calls)) > 0.01*p.Seconds || p.Measured != 0 {
		t.Errorf("%d calls of 1000 s take %v s", calls, p.Seconds)
	}
	o.CallSeconds = nil
	if few := predict(o).Seconds; few >= 1 {
		t.Errorf("by arithmetic %v s", few)
	}
}
