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
	Start, End float64
}

// Timeline shows when each action of a step ran, simulated or measured.
type Timeline struct {
	Stages   int
	Spans    []Span  // by start, then stage
	Makespan float64 // from the first start to the last end
	// Unit names the unit of all times, such as "s" or "flops". Empty means a
	// relative cost: only ratios of times have a meaning.
	Unit string
	// Bubble is the share of idle time of the stages from the first F to the
	// end of the last F or B: 1 - busy/(stages × that window). Updates are left
	// out, for they are the same without a pipeline.
	Bubble float64
	Stuck  []Action // actions that never ran
}

// NewTimeline makes a timeline of spans, such as those measured in a run.
func NewTimeline(stages int, spans []Span) Timeline {
	t := Timeline{Stages: stages, Spans: slices.Clone(spans)}
	slices.SortStableFunc(t.Spans, func(x, y Span) int {
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Action.Stage, y.Action.Stage))
	})
	if len(spans) == 0 {
		return t
	}
	first, last := math.Inf(1), math.Inf(-1)
	from, to, busy := math.Inf(1), math.Inf(-1), 0.0
	for _, sp := range t.Spans {
		first, last = min(first, sp.Start), max(last, sp.End)
		if sp.Action.Kind != Update {
			from, to = min(from, sp.Start), max(to, sp.End)
			busy += sp.End - sp.Start
		}
	}
	t.Makespan = last - first
	if window := (to - from) * float64(stages); window > 0 {
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

// String draws the timeline to scale, a line per stage.
func (t Timeline) String() string { return t.Text() }

// maxColumns bounds the width of a timeline in text; beyond it, labels of
// short spans are cut off.
const maxColumns = 240

// Text is String with some actions marked by "!" in place of "=" and "|".
//
//	stage 0 |0F0=|0F1=|......|0B0======|
func (t Timeline) Text(marked ...Action) string {
	scale := t.scale()
	var b strings.Builder
	for stage := range t.Stages {
		line := []byte(strings.Repeat(".", int(math.Round(t.Makespan*scale))+1))
		for _, mark := range []bool{false, true} { // marked spans on top: edges are shared
			for _, sp := range t.Spans {
				if sp.Action.Stage == stage && slices.Contains(marked, sp.Action) == mark {
					t.draw(line, sp, scale, mark)
				}
			}
		}
		fmt.Fprintf(&b, "stage %-2d %s\n", stage, line)
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

// SVG draws the timeline as a picture 1000 units wide: a lane per stage, blue
// forward, green backward, amber update.
func (t Timeline) SVG() string {
	const width, lane, left = 1000.0, 28.0, 60.0
	color := map[Kind]string{Forward: "#7aa6da", Backward: "#7cbf7c", Update: "#e0b050"}
	scale := 0.0
	if t.Makespan > 0 {
		scale = (width - left) / t.Makespan
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"monospace\" font-size=\"11\">\n", width, lane*float64(t.Stages)+20)
	for stage := range t.Stages {
		fmt.Fprintf(&b, "<text x=\"0\" y=\"%g\">stage %d</text>\n", lane*float64(stage)+18, stage)
	}
	for _, sp := range t.Spans {
		x, y := left+(sp.Start-t.origin())*scale, lane*float64(sp.Action.Stage)+4
		fmt.Fprintf(&b, "<rect x=\"%.2f\" y=\"%g\" width=\"%.2f\" height=\"%g\" fill=\"%s\" stroke=\"#fff\"><title>%v %.4g to %.4g</title></rect>\n",
			x, y, (sp.End-sp.Start)*scale, lane-6, color[sp.Action.Kind], sp.Action, sp.Start, sp.End)
		fmt.Fprintf(&b, "<text x=\"%.2f\" y=\"%g\">%v</text>\n", x+2, y+15, sp.Action)
	}
	fmt.Fprintf(&b, "<text x=\"0\" y=\"%g\">%s</text>\n</svg>\n", lane*float64(t.Stages)+14, t.summary())
	return b.String()
}
