package partition

import (
	"flag"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
)

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
