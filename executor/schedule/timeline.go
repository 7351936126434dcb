package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Span is an action with its time, in the timeline's unit from any origin.
type Span struct {
	Action     Action
	Worker     int
	Start, End float64
}

// Timeline shows when each action of a step ran, simulated or measured.
type Timeline struct {
	Workers  int
	Spans    []Span  // by start, then worker
	Makespan float64 // from the first start to the last end
	// Unit names the unit of all times, such as "s" or "flops". Empty means a
	// relative cost: only ratios of times have a meaning.
	Unit string
	// Bubble is the share of idle time of the workers that do anything, from the
	// first start to the last end: 1 - busy/(workers × that window). Updates are
	// left out, for they are the same without a pipeline.
	Bubble float64
	Stuck  []Action // actions that never ran
}

// NewTimeline makes a timeline of spans, such as those measured in a run.
func NewTimeline(workers int, spans []Span) Timeline {
	t := Timeline{Workers: workers, Spans: slices.Clone(spans)}
	slices.SortStableFunc(t.Spans, func(x, y Span) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Worker, y.Worker))
	})
	if len(spans) == 0 {
		return t
	}
	first, last := math.Inf(1), math.Inf(-1)
	from, to, busy := math.Inf(1), math.Inf(-1), 0.0
	working := map[int]bool{}
	for _, sp := range t.Spans {
		first, last = min(first, sp.Start), max(last, sp.End)
		if sp.Action.Kind != Update {
			from, to = min(from, sp.Start), max(to, sp.End)
			busy += sp.End - sp.Start
			working[sp.Worker] = true
		}
	}
	t.Makespan = last - first
	if window := (to - from) * float64(len(working)); window > 0 {
		t.Bubble = max(0, 1-busy/window)
	}
	return t
}

// origin is when the first span starts.
func (t Timeline) origin() float64 {
	if len(t.Spans) == 0 {
		return 0
	}
	return t.Spans[0].Start
}

// String draws the timeline to scale, a line per worker.
func (t Timeline) String() string { return t.Text() }

// maxColumns bounds the width of a timeline in text; beyond it, labels of
// short spans are cut off.
const maxColumns = 240

// Text is String with some actions marked by "!" in place of "=" and "|".
//
//	worker 0 |0F0=|0F1=|......|0B0======|
func (t Timeline) Text(marked ...Action) string {
	scale := t.scale()
	var b strings.Builder
	for worker := range t.Workers {
		line := []byte(strings.Repeat(".", int(math.Round(t.Makespan*scale))+1))
		for _, mark := range []bool{false, true} { // marked spans on top: edges are shared
			for _, sp := range t.Spans {
				if sp.Worker == worker && slices.Contains(marked, sp.Action) == mark {
					t.draw(line, sp, scale, mark)
				}
			}
		}
		fmt.Fprintf(&b, "worker %-2d %s\n", worker, line)
	}
	fmt.Fprintln(&b, t.summary())
	if len(t.Stuck) > 0 {
		fmt.Fprintf(&b, "never ran: %v\n", t.Stuck)
	}
	return b.String()
}

// summary is the makespan with its unit, and the bubble.
func (t Timeline) summary() string {
	unit := t.Unit
	if unit == "" {
		unit = "(relative cost)"
	}
	return fmt.Sprintf("makespan %.4g %s, bubble %.1f%%", t.Makespan, unit, 100*t.Bubble)
}

// scale is the number of columns per unit of time. The label of the shortest span
// fits, unless the line would then be longer than maxColumns.
func (t Timeline) scale() float64 {
	short, label := math.Inf(1), 1
	for _, sp := range t.Spans {
		if d := sp.End - sp.Start; d > 0 {
			short = min(short, d)
		}
		label = max(label, len(sp.Action.String()))
	}
	if math.IsInf(short, 1) {
		return 0
	}
	return min(float64(label+1)/short, maxColumns/t.Makespan)
}

func (t Timeline) draw(line []byte, sp Span, scale float64, marked bool) {
	fill, edge := byte('='), byte('|')
	if marked {
		fill, edge = '!', '!'
	}
	from := int(math.Round((sp.Start - t.origin()) * scale))
	to := min(int(math.Round((sp.End-t.origin())*scale)), len(line)-1)
	label := sp.Action.String()
	for i := from; i <= to; i++ {
		switch {
		case i == from || i == to:
			line[i] = edge
		case i-from-1 < len(label):
			line[i] = label[i-from-1]
		default:
			line[i] = fill
		}
	}
}
