package schedule

import (
	"math"
	"testing"
)

// TestBubble checks the known share (S-1)/(M+S-1) for equal stages, which is
// the same for both schedules, and the microbatches in flight of each.
func TestBubble(t *testing.T) {
	for stages := 1; stages <= 5; stages++ {
		for m := 1; m <= 10; m++ {
			want := float64(stages-1) / float64(m+stages-1)
			for _, s := range []Schedule{gpipe(stages, m), oneFOneB(stages, m)} {
				if got := s.Simulate(TypicalCost).Bubble; math.Abs(got-want) > 1e-9 {
					t.Errorf("%s %d stages %d microbatches: bubble %g, want %g", s.Name, stages, m, got, want)
				}
			}
			for st := range stages {
				if got := gpipe(stages, m).InFlight(st); got != m {
					t.Errorf("gpipe holds %d of %d", got, m)
				}
				if got, want := oneFOneB(stages, m).InFlight(st), min(m, stages-st); got != want {
					t.Errorf("1f1b with %d stages, %d microbatches: stage %d holds %d, want %d", stages, m, st, got, want)
				}
				if got := forwardOnly(stages, m).InFlight(st); got != 1 {
					t.Errorf("forward holds %d", got)
				}
			}
		}
	}
}
