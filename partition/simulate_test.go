package partition

import (
	"flag"
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/speed"
	"pgregory.net/rapid"
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

// Copies for lack of memory overlap with launches: a step takes longer than with plenty of
// memory, and at most by all copies one after the other. Measured times of copies count.
func TestPredictedMoves(t *testing.T) {
	predict := func(limit int64, seconds float64) (*Prediction, Forecast) {
		t.Helper()
		p := mustPlan(t, nets.Chain(4, 8, 16, 3), PlanOptions{
			Devices: nets.Specs(1, limit), Microbatches: 3, Seconds: everyRun(1),
			HostSeconds: func(_ int, _ int64, out bool) (float64, bool) { return seconds, true },
		})
		x, err := p.Predict(nil)
		if err != nil {
			t.Fatal(err)
		}
		return x, p.Memory[0]
	}
	free, plenty := predict(0, 1)
	none, tight := predict(plenty.Peak/2, 0)
	if tight.Moved() == 0 || none.Moving > 1e-9 || free.Moving != 0 {
		t.Fatalf("%d bytes move; copies of no time take %v s", tight.Moved(), none.Moving)
	}
	before := none.Seconds
	for _, seconds := range []float64{0.5, 5, 50} {
		x, _ := predict(plenty.Peak/2, seconds)
		most := none.Seconds + seconds*float64(tight.Moved()) // no copy has less than a byte
		if x.Seconds < before || x.Seconds > most || x.Moving <= 0 || math.Abs(x.Seconds-none.Seconds-x.Moving) > 0.01*x.Seconds {
			t.Errorf("copies of %v s: %v s after %v s, moving %v", seconds, x.Seconds, before, x.Moving)
		}
		before = x.Seconds
	}
}

// In branched graphs too, the step of the plan that is chosen takes at most 5% longer
// than that of the best way to cut them, by the prediction that users see.
func TestChosenPlanIsPredictedBest(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		testall.Checks(20, 100) // it makes many plans
		defer f.Value.Set(f.DefValue)
	}
	rapid.Check(t, func(t *rapid.T) {
		devices := rapid.IntRange(2, 3).Draw(t, "devices")
		s := nets.Chain(rapid.IntRange(devices, 5).Draw(t, "blocks"), rapid.SampledFrom([]int{8, 32}).Draw(t, "width"), 4, rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "microbatches"))
		for i := range s.Blocks {
			b := &s.Blocks[i]
			b.Skip, b.Tied = rapid.IntRange(-1, i-1).Draw(t, "skip"), rapid.IntRange(0, i).Draw(t, "tied")
		}
		o := PlanOptions{Devices: nets.Specs(devices, 0), Microbatches: s.Microbatches, Count: rapid.IntRange(2, devices).Draw(t, "stages")}
		o.Schedule = rapid.SampledFrom([]string{"1f1b", "gpipe", "zb-h1"}).Draw(t, "schedule")
		for d := range o.Devices {
			o.Devices[d].FlopsPerSecond = rapid.SampledFrom([]float64{1e6, 2e6, 3e6}).Draw(t, "speed")
			o.Devices[d].LinkBytesPerS = rapid.SampledFrom([]float64{1e6, 1e7, 1e9}).Draw(t, "link")
		}
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		predicted := func(o PlanOptions) float64 {
			p, err := New(g, o)
			if err != nil {
				t.Fatal(err)
			}
			x, err := p.Predict(nil)
			if err != nil {
				t.Fatal(err)
			}
			return x.Seconds
		}
		got, best := predicted(o), math.Inf(1)
		blocks := nodes.Blocks(g)
		nets.EachCut(len(blocks), devices, o.Count, func(begins, on []int) {
			byHand := o
			byHand.Count, byHand.On = 0, on
			for i, lo := range begins {
				byHand.Stages = append(byHand.Stages, blocks[lo:append(begins, len(blocks))[i+1]])
			}
			best = min(best, predicted(byHand))
		})
		if got > 1.05*best {
			t.Fatalf("a step takes %v s, the best way %v s", got, best)
		}
	})
}
