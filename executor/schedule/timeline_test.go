package schedule

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/golden"
)

// The unit of a makespan is the unit of its costs.
func TestMakespanHasAUnit(t *testing.T) {
	line := oneFOneB(2, 3).Simulate(TypicalCost)
	for unit, want := range map[string]string{
		"":      "makespan 12.5 (relative cost), bubble 25.0%",
		"flops": "makespan 12.5 flops, bubble 25.0%",
	} {
		line.Unit = unit
		if !strings.Contains(line.String(), want+"\n") || !strings.Contains(line.SVG(), ">"+want+"<") {
			t.Errorf("unit %q: want %q in\n%s%s", unit, want, line, line.SVG())
		}
	}
}

func TestSVG(t *testing.T) {
	golden.Check(t, "testdata/1f1b.svg", oneFOneB(2, 3).Simulate(TypicalCost).SVG())
}

// TestMeasured checks that a timeline of measured spans needs no origin at 0.
func TestMeasured(t *testing.T) {
	spans := []Span{{Action{1, Backward, 0}, 130, 140}, {Action{0, Forward, 0}, 100, 110}, {Action{1, Forward, 0}, 120, 130}, {Action{0, Backward, 0}, 140, 150}, {Action{0, Update, 0}, 150, 175}}
	tl := NewTimeline(2, spans)
	if tl.Makespan != 75 || tl.Bubble != 0.6 || tl.Spans[0].Start != 100 {
		t.Errorf("makespan %g, bubble %g, first %v", tl.Makespan, tl.Bubble, tl.Spans[0])
	}
	if text := tl.Text(Action{1, Forward, 0}); !strings.Contains(text, "!1F0!") {
		t.Error(text)
	}
	if empty := NewTimeline(1, nil); empty.Bubble != 0 || empty.String() == "" {
		t.Error(empty)
	}
}
