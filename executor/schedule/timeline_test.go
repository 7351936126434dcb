package schedule

import (
	"strings"
	"testing"
)

// simulated is a schedule's timeline at typical costs.
func simulated(name string, stages, microbatches int) Timeline {
	s := named(name, stages, microbatches)
	return s.Simulate(s.Typical())
}

// The unit of a makespan is the unit of its costs.
func TestMakespanHasAUnit(t *testing.T) {
	line := simulated("1f1b", 2, 3)
	for unit, want := range map[string]string{
		"":      "makespan 12.5 (relative cost), bubble 25.0%",
		"flops": "makespan 12.5 flops, bubble 25.0%",
	} {
		line.Unit = unit
		if !strings.Contains(line.String(), want+"\n") {
			t.Errorf("unit %q: want %q in\n%s", unit, want, line)
		}
	}
}

// TestMeasured checks that a timeline of measured spans needs no origin at 0.
func TestMeasured(t *testing.T) {
	spans := []Span{{Action{Stage: 1, Kind: Backward}, 1, 130, 140}, {Action{Stage: 0, Kind: Forward}, 0, 100, 110}, {Action{Stage: 1, Kind: Forward}, 1, 120, 130}, {Action{Stage: 0, Kind: Backward}, 0, 140, 150}, {Action{Stage: 0, Kind: Update}, 0, 150, 175}}
	tl := NewTimeline(2, spans)
	if tl.Makespan != 75 || tl.Bubble != 0.6 || tl.Spans[0].Start != 100 {
		t.Errorf("makespan %g, bubble %g, first %v", tl.Makespan, tl.Bubble, tl.Spans[0])
	}
	if text := tl.Text(Action{Stage: 1, Kind: Forward}); !strings.Contains(text, "!1F0!") {
		t.Error(text)
	}
	if empty := NewTimeline(1, nil); empty.Bubble != 0 || empty.String() == "" {
		t.Error(empty)
	}
}
