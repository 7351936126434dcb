package partition

import (
	"math"
	"testing"

	"github.com/berth-ml/berth/partition/nets"
)

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
