package picture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// SVG draws a plan, whose model has that name, and its prediction.
func SVG(name string, p *partition.Plan, x *partition.Prediction) string {
	d := newDrawing(p)
	title := fmt.Sprintf("%s on %s", name, deviceList(p))
	c := begin(title, max(leastWide, d.wide+2*svg.Margin))
	c.Text(svg.Small(svg.Margin, 54, x.String()).Fit(c.Width - 2*svg.Margin))
	y := d.draw(c, 76)
	y = drawMemory(c, p, y+30)
	title = fmt.Sprintf("A step, predicted: schedule %s, %s", p.Schedule(), units.Count(p.Microbatches, "microbatch"))
	if x.Moving.Waits > x.Seconds/1000 { // less is not seen
		title += fmt.Sprintf("; of it, %s are waits for bytes that move for lack of memory", svg.Time(x.Moving.Waits))
	}
	line := predicted(p, x)
	if over := line.end() - x.Seconds; over > x.Seconds/100 { // the time of a step is from end to end
		title += fmt.Sprintf("; the next step begins %s before its end", svg.Time(over))
	}
	y = drawTimeline(c, p, title, line, line.end(), y+30)
	return end(c, y+8, colors(line))
}

// StepSVG draws a step of a plan twice, on one scale of time: above as x predicts it,
// below as it ran. step is the number of the step that ran.
func StepSVG(name string, p *partition.Plan, x *partition.Prediction, step int, ran Timeline) string {
	c := begin(titleOf(name, p), leastWide)
	line, ran := predicted(p, x), ran.fromWork()
	last := max(line.end(), ran.end())
	y := drawTimeline(c, p, "Predicted", line, last, 64)
	y = drawTimeline(c, p, fmt.Sprintf("Measured: step %d, from its first launch to its last", step), ran, last, y+30)
	return end(c, y+8, colors(line, ran))
}

// ScheduleSVG draws the simulation of a plan's schedule by the arithmetic of its actions:
// times are flops.
func ScheduleSVG(name string, p *partition.Plan, t schedule.Timeline) string {
	c := begin(titleOf(name, p), leastWide)
	line := Timeline{words: svg.Number, ticks: svg.Ticks}
	for _, sp := range t.Spans {
		a := sp.Action
		line.Launches = append(line.Launches, Launch{a.String(), []schedule.Kind{a.Kind}, p.DevicesOf(a.Stage)[a.Replica], sp.Start, sp.End, nil})
	}
	title := fmt.Sprintf("By the arithmetic of its actions alone: %s flops, devices idle %.0f%% of the time", svg.Rounded(t.Makespan), 100*t.Bubble)
	y := drawTimeline(c, p, title, line, line.end(), 64)
	c.Text(svg.Small(leastWide-svg.Margin, y+21, "a line: an action without arithmetic of its own").At(svg.End))
	return end(c, y+8, colors(line))
}

// begin begins a picture of a width.
func begin(title string, wide float64) *svg.Picture {
	c := &svg.Picture{Title: title, Width: wide}
	c.Heading()
	return c
}

// end explains colours, and returns the picture.
func end(c *svg.Picture, y float64, colours []svg.Entry) string {
	c.Height = c.Legend(laneLeft, y, c.Width-laneLeft-svg.Margin, colours...) + svg.Margin
	return c.String()
}

// titleOf is the title of a schedule.
func titleOf(name string, p *partition.Plan) string {
	return fmt.Sprintf("%s on %s: schedule %s, %s", name, deviceList(p), p.Schedule(), units.Count(p.Microbatches, "microbatch"))
}

// mostNamed is the most devices that a title names.
const mostNamed = 4

// deviceList names the devices with a stage, or counts them.
func deviceList(p *partition.Plan) string {
	if n := len(p.Devices()); n > mostNamed {
		return units.Count(n, "device")
	}
	var ids []string
	for _, d := range p.Devices() {
		ids = append(ids, string(p.Specs()[d].ID))
	}
	return strings.Join(ids, ", ")
}

// drawMemory draws a bar for each device with a stage: the peak of a step by usages, and a
// mark at the device's limit where that is lower. y is the top; it returns the bottom.
func drawMemory(c *svg.Picture, p *partition.Plan, y float64) float64 {
	c.Text(svg.Head(svg.Margin, y, "Memory of a step"))
	y += 10
	most, tight := int64(1), false
	for i := range p.Memory {
		most, tight = max(most, p.Memory[i].Peak), tight || p.Memory[i].Tight()
	}
	const left, right = 150.0, 330.0
	scale := (c.Width - left - right - svg.Margin) / float64(most)
	limit := svg.Style{Stroke: svg.Limit, Width: svg.BoldLine, Dash: []float64{4, 2}}
	for i := range p.Memory {
		f := &p.Memory[i]
		c.Text(svg.Text{X: svg.Margin, Y: y + 15, Words: string(p.Specs()[f.Device].ID)}.Fit(left - svg.Margin - 8))
		x := left
		for u, b := range f.PeakBy {
			w := scale * float64(b)
			if w > 0 {
				c.Rect(svg.Box{X: x, Y: y + 3, W: w, H: 16}, 0, svg.Style{Fill: usages[u].Style.Fill, Hint: usages[u].Words + " " + units.Bytes(b)})
			}
			x += w
		}
		if f.Tight() {
			at := left + scale*float64(f.Limit)
			c.Line(at, y, at, y+22, limit)
		}
		x = left + scale*float64(f.Peak) + 8
		c.Text(svg.Small(x, y+15, memoryText(f)).Fit(c.Width - svg.Margin - x))
		y += 24
	}
	shown := usages[:len(usages)-1] // a step of training has no caches
	if tight {
		shown = append(slices.Clone(shown), svg.Entry{Words: "limit", Style: limit})
	}
	return c.Legend(left, y+2, c.Width-left-svg.Margin, shown...)
}

// memoryText says what a step takes of a device's memory.
func memoryText(f *partition.Forecast) string {
	switch {
	case f.Limit == 0:
		return units.Bytes(f.Peak)
	case f.Tight():
		return fmt.Sprintf("%s, and %s are there: %s move in each step", units.Bytes(f.Peak), units.Bytes(f.Limit), units.Bytes(f.Moved()))
	}
	return fmt.Sprintf("%s of %s", units.Bytes(f.Peak), units.Bytes(f.Limit))
}

// usages are those of memory, in the order of device.Usage. What a pass of the step below makes or
// changes has that pass's colour.
var usages = []svg.Entry{
	area("weights", svg.Sky), area("optimizer state", passFills[schedule.Update]), area("gradients", passFills[schedule.Backward]),
	area("activations", passFills[schedule.Forward]),
	area("input", svg.Purple), area("scratch", svg.Frame), area("caches", svg.Grey),
}

// area is an entry of a legend.
func area(words string, fill svg.Color) svg.Entry {
	return svg.Entry{Words: words, Style: svg.Style{Fill: fill}}
}
