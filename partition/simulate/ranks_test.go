package simulate_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/simulate"
	"github.com/berth-ml/berth/partition/speed"
	"github.com/berth-ml/berth/partition/step"
)

// TestRanksSendWhatIsForetold: in a simulated step, each rank sends and receives the bytes of the plan's exchange, and works and
// waits for the whole step, whether the launches are listed or not.
func TestRanksSendWhatIsForetold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		p := s.Program(t, n)
		of := make([]int, s.Count())
		for d := range of {
			if d > 0 {
				of[d] = of[d-1] + rapid.IntRange(0, 1).Draw(t, "next rank")
			}
		}
		if rapid.Bool().Draw(t, "planned for ranks") {
			p.Ranks = of
		}
		o := step.Options{Microbatches: n.Microbatches}
		launches := passes.Launches(t, p, o)
		speeds := speed.Speeds{Devices: nets.Specs(s.Count(), 0), Ranks: of, Link: speed.DefaultLink}
		listed, err := simulate.Step(stop.When(nil), speeds, launches, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		walked, err := simulate.Walk(stop.When(nil), speeds, func(visit func(*step.Launch)) error { return p.Walk(stop.When(nil), o, visit) })
		if err != nil {
			t.Fatal(err)
		}
		if listed.Seconds != walked.Seconds || !slices.Equal(listed.Ranks, walked.Ranks) {
			t.Fatalf("%v s, %v; not listed %v s, %v", listed.Seconds, listed.Ranks, walked.Seconds, walked.Ranks)
		}
		received := make([]int64, len(listed.Ranks))
		for from, to := range step.NewExchange(launches, of).Bytes() {
			var sent int64
			for r, bytes := range to {
				sent += bytes
				received[r] += bytes
			}
			if got := listed.Ranks[from].Sent; got != sent {
				t.Fatalf("rank %d sends %d bytes, the exchange has %d", from, got, sent)
			}
		}
		for r, x := range listed.Ranks {
			if x.Received != received[r] {
				t.Fatalf("rank %d receives %d bytes, the exchange has %d", r, x.Received, received[r])
			}
			if x.Working > 0 && math.Abs(x.Working+x.Waiting-listed.Seconds) > 1e-9+listed.Seconds/1e6 {
				t.Fatalf("rank %d works for %v and waits for %v of %v s", r, x.Working, x.Waiting, listed.Seconds)
			}
		}
	})
}
