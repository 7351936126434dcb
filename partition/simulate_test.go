package partition

import (
	"flag"
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
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

// Values that are computed a second time lengthen a step, though fewer tensors cross from
// segment to segment. On one device, the plan's table and the prediction agree.
func TestRecomputationTakesTime(t *testing.T) {
	devices, before := nets.Specs(1, 0), 0.0
	devices[0].FlopsPerSecond, devices[0].LinkBytesPerS = 200e9, 10e9
	for _, r := range []Recompute{"", RecomputeCheap, RecomputeBlock} {
		p := mustCut(t, mustGraph(t, nets.DeepGPT), PlanOptions{Devices: devices, Microbatches: 1, Recompute: r})
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
	if tight.Moved() == 0 || none.Moving.Waits > 1e-9 || free.Moving.Waits != 0 {
		t.Fatalf("%d bytes move; copies of no time take %v s", tight.Moved(), none.Moving.Waits)
	}
	before := none.Seconds
	for _, seconds := range []float64{0.5, 5, 50} {
		x, _ := predict(plenty.Peak/2, seconds)
		most := none.Seconds + seconds*float64(tight.Moved()) // no copy has less than a byte
		if x.Seconds < before || x.Seconds > most || x.Moving.Waits <= 0 || math.Abs(x.Seconds-none.Seconds-x.Moving.Waits) > 0.01*x.Seconds {
			t.Errorf("copies of %v s: %v s after %v s, moving %v", seconds, x.Seconds, before, x.Moving.Waits)
		}
		if m := x.Moving; m.Hidden <= 0 || m.Hidden > m.Most*1.001 || m.Most > m.Copies*1.001 {
			t.Errorf("copies of %v s: of %v s, %v s are hidden, and at most %v s can be", seconds, m.Copies, m.Hidden, m.Most)
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
