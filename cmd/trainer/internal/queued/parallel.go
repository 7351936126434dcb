package queued

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/sweep"
)

// Sizes of a picture of parallel coordinates, in pixels.
const (
	axisApart  = 170.0 // from an axis to the next
	axisHigh   = 380.0
	sideRoom   = 110.0 // left of the first axis and right of the last, for their texts
	mostNamed  = 25    // values of an axis that each have a tick
	magnitudes = 20.0  // the largest value of the metric over the least, from which on its axis is logarithmic
)

// column is an axis of the picture, with each trial's place on it.
type column struct {
	svg.Axis
	at func(trial int) (value float64, ok bool)
}

// parallel draws a sweep by parallel coordinates: an axis for each key that varies and one for the metric, and a
// line for each trial that has begun. The better a trial, the darker its line.
func parallel(st *jobs.Standing, title string) *svg.Picture {
	var list []column
	for i := range st.Sweep.Vary {
		list = append(list, keyColumn(st, i))
	}
	list = append(list, metricColumn(st))
	p := &svg.Picture{Title: title, Width: 2*sideRoom + float64(len(list)-1)*axisApart}
	p.Heading()
	top := p.Legend(svg.Margin, svg.HeadingHigh, p.Width-2*svg.Margin, looks(st)...) + 40
	p.Height = top + axisHigh + 2*svg.Margin
	x := func(c int) float64 { return sideRoom + float64(c)*axisApart }
	order := st.Order()
	for rank, i := range slices.Backward(order) { // the best is drawn over the others
		var line []svg.Point
		for c := range list {
			if v, ok := list[c].at(i); ok {
				line = append(line, svg.Point{X: x(c), Y: top + axisHigh*(1-list[c].At(v))})
			}
		}
		style := lookOfTrial(st, i, rank, len(order))
		style.Hint = hint(st, i)
		p.Path(svg.Line(line...), style)
		if end := line[len(line)-1]; len(line) < len(list) && st.Trials[i].State.Over() { // it has no value
			p.Mark(svg.Square, end, style.Stroke)
		}
	}
	for c := range list {
		list[c].draw(p, x(c), top)
	}
	return p
}

// keyColumn is the axis of a key that varies.
func keyColumn(st *jobs.Standing, k int) column {
	d := &st.Sweep.Vary[k]
	c := column{Axis: svg.Axis{Label: d.Key}}
	if d.Values != nil {
		c.Low, c.High, c.Names = -0.5, float64(len(d.Values))-0.5, true
		for i := 0; i < len(d.Values); i += 1 + (len(d.Values)-1)/mostNamed {
			c.Ticks = append(c.Ticks, svg.Tick{At: float64(i), Label: shortValue(d.Values[i])})
		}
		c.at = func(trial int) (float64, bool) {
			i := slices.Index(d.Values, st.Trials[trial].Trial.Settings[k].Value)
			spread := (float64(trial)+0.5)/float64(len(st.Trials)) - 0.5 // lines that would cover each other are apart
			return float64(i) + spread/3, i >= 0
		}
		return c
	}
	c.span(d.Lo, d.Hi, d.Log, d.Whole)
	c.at = func(trial int) (float64, bool) {
		v, err := strconv.ParseFloat(st.Trials[trial].Trial.Settings[k].Value, 64)
		return v, err == nil
	}
	return c
}

// metricColumn is the axis of the newest value of the metric.
func metricColumn(st *jobs.Standing) column {
	low, high := math.Inf(1), math.Inf(-1)
	for i := range st.Trials {
		if v := st.Value(i); v != nil {
			low, high = min(low, *v), max(high, *v)
		}
	}
	if low > high { // no trial has one yet
		low, high = 0, 1
	}
	better := "higher is better"
	if configs.LowerIsBetter(st.Sweep.Metric) {
		better = "lower is better"
	}
	c := column{Axis: svg.Axis{Label: st.Sweep.Metric + ", " + better}}
	c.span(low, high, low > 0 && high/low > magnitudes, false)
	if text.IsShare(st.Sweep.Metric) {
		svg.Percent(c.Ticks)
	}
	c.at = func(trial int) (float64, bool) {
		if v := st.Value(trial); v != nil {
			return *v, true
		}
		return 0, false
	}
	return c
}

// span makes an axis of numbers.
func (c *column) span(low, high float64, log, whole bool) {
	if low == high {
		low, high, log = low-1, high+1, false
	}
	c.Low, c.High, c.Log = low, high, log
	switch {
	case log:
		c.Ticks = svg.LogTicks(low, high)
	case whole:
		c.Ticks = svg.WholeTicks(low, high, 8)
	default:
		c.Ticks = svg.Ticks(low, high, 8)
	}
}

// draw draws an axis over the lines.
func (c *column) draw(p *svg.Picture, x, top float64) {
	p.Line(x, top, x, top+axisHigh, svg.Style{Stroke: svg.Edge, Width: svg.ThinLine})
	p.Text(svg.Text{X: x, Y: top - 14, Words: c.Label, Bold: true}.Fit(axisApart - 10).At(svg.Middle))
	for _, t := range c.Ticks {
		y := top + axisHigh*(1-c.At(t.At))
		label := svg.Small(x+8, y+4, t.Label).Fit(axisApart - 24)
		label.Color = svg.Ink
		p.Line(x-4, y, x+4, y, svg.Style{Stroke: svg.Edge})
		p.Rect(svg.Box{X: x + 6, Y: y - 8, W: label.Wide() + 4, H: 16}, 3, svg.Style{Fill: svg.White, Opacity: 0.8})
		p.Text(label)
	}
}

// Looks of trials.
var (
	bestLook   = svg.Style{Stroke: svg.Vermilion, Width: 3}
	goodLook   = svg.Style{Stroke: svg.Blue, Width: svg.ThinLine}
	outLook    = svg.Style{Stroke: svg.Grey, Dash: []float64{4, 3}}
	failedLook = svg.Style{Stroke: svg.Limit, Dash: []float64{1, 3}, Width: svg.BoldLine}
)

// lookOfTrial is the look of the trial that has a rank among so many, from 0 on.
func lookOfTrial(st *jobs.Standing, i, rank, of int) svg.Style {
	switch v := st.Trials[i]; {
	case i == st.Decision.Best-1:
		return bestLook
	case v.State.Over() && st.Value(i) == nil:
		return failedLook
	case stateOf(v) == string(sweep.Out):
		return outLook
	}
	look := goodLook
	look.Stroke = look.Stroke.Mixed(svg.White, 0.7*float64(rank)/float64(of))
	return look
}

// looks are the legend: the looks that trials have.
func looks(st *jobs.Standing) (list []svg.Entry) {
	has := map[string]bool{}
	for i, v := range st.Trials {
		switch {
		case v == nil || i == st.Decision.Best-1:
		case v.State.Over() && st.Value(i) == nil:
			has["failed"] = true
		case stateOf(v) == string(sweep.Out):
			has["out"] = true
		default:
			has["other"] = true
		}
	}
	if best := st.Decision.Best; best > 0 {
		words := fmt.Sprintf("trial %d, the best: %s %s", best, st.Sweep.Metric, metric(st.Sweep.Metric, st.Value(best-1)))
		list = append(list, svg.Entry{Words: words, Style: bestLook})
	}
	for _, x := range []struct {
		name, words string
		style       svg.Style
	}{{"other", "others: the better, the darker", goodLook}, {"out", "out", outLook}, {"failed", "failed, or no finite value", failedLook}} {
		if has[x.name] {
			list = append(list, svg.Entry{Words: x.words, Style: x.style})
		}
	}
	return list
}

// hint is shown while the pointer is on a trial's line.
func hint(st *jobs.Standing, i int) string {
	v := st.Trials[i]
	words := fmt.Sprintf("trial %d, %s", i+1, stateOf(v))
	if x := st.Value(i); x != nil {
		words += fmt.Sprintf(": %s %s at step %d", st.Sweep.Metric, text.Metric(st.Sweep.Metric, *x), v.Step)
	}
	for _, s := range v.Trial.Settings {
		words += fmt.Sprintf("; %s %s", s.Key, shortValue(s.Value))
	}
	return words
}
