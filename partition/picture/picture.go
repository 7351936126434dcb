package picture

import (
	"fmt"
	"strings"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// SVG draws a plan, whose model has that name, and its prediction.
func SVG(name string, p *partition.Plan, x *partition.Prediction) string {
	c := &canvas{}
	d := newDrawing(p)
	wide := max(leastWide, d.wide+2*margin)
	c.text(margin, 34, "start", "title", "%s on %s", name, deviceList(p))
	c.text(margin, 54, "start", "small", "%s", x)
	y := d.draw(c, 76)
	y = drawMemory(c, p, y+30, wide)
	title := fmt.Sprintf("A step, predicted: schedule %s, %d microbatches", p.Schedule(), p.Microbatches)
	if x.Moving > 0 {
		title += fmt.Sprintf("; of it, %s are waits for bytes that move for lack of memory", milliseconds(x.Moving))
	}
	line := predicted(p, x)
	y = drawTimeline(c, p, title, line, line.end(), y+30, wide)
	y = drawLegend(c, laneLeft, y+8, append(passes[:len(passes):len(passes)], line.copyColors()...)...)
	return c.svg(wide, y+margin)
}

// StepSVG draws a step of a plan twice: as it was predicted, and as a step with that
// number ran. Both have one scale.
func StepSVG(name string, p *partition.Plan, x *partition.Prediction, step int, ran Timeline) string {
	c := &canvas{}
	c.text(margin, 34, "start", "title", "%s on %s: schedule %s, %d microbatches", name, deviceList(p), p.Schedule(), p.Microbatches)
	line := predicted(p, x)
	end := max(line.end(), ran.end())
	y := drawTimeline(c, p, "Predicted", line, end, 64, leastWide)
	y = drawTimeline(c, p, fmt.Sprintf("Measured: step %d, from its first launch to its last", step), ran, end, y+30, leastWide)
	y = drawLegend(c, laneLeft, y+8, append(append(passes[:len(passes):len(passes)], line.copyColors()...), hostCopies)...)
	return c.svg(leastWide, y+margin)
}

// ScheduleSVG draws the simulation of a plan's schedule by the arithmetic of its actions:
// times are flops.
func ScheduleSVG(name string, p *partition.Plan, t schedule.Timeline) string {
	c := &canvas{}
	line := Timeline{unit: exactCount}
	for _, sp := range t.Spans {
		a := sp.Action
		line.Launches = append(line.Launches, Launch{a.String(), a.Kind, p.DevicesOf(a.Stage)[a.Replica], sp.Start, sp.End})
	}
	c.text(margin, 34, "start", "title", "%s on %s: schedule %s, %d microbatches", name, deviceList(p), p.Schedule(), p.Microbatches)
	title := fmt.Sprintf("By the arithmetic of its actions alone: %s flops, devices idle %.0f%% of the time", line.words(t.Makespan), 100*t.Bubble)
	y := drawTimeline(c, p, title, line, line.end(), 64, leastWide)
	y = drawLegend(c, laneLeft, y+8, passes...)
	c.text(leastWide-margin, y-5, "end", "small", "a line: an action without arithmetic of its own")
	return c.svg(leastWide, y+margin)
}

// deviceList names the devices with a stage.
func deviceList(p *partition.Plan) string {
	var ids []string
	for _, d := range p.Devices() {
		ids = append(ids, string(p.Specs()[d].ID))
	}
	return strings.Join(ids, ", ")
}

// drawMemory draws a bar for each device with a stage: its peak of the memory that it
// has. It returns the bottom.
func drawMemory(c *canvas, p *partition.Plan, y, wide float64) float64 {
	c.text(margin, y, "start", "stage", "Memory of a step")
	y += 10
	most, tight := int64(1), false
	for i := range p.Memory {
		most, tight = max(most, p.Memory[i].Peak), tight || p.Memory[i].Tight()
	}
	const left, right = 150.0, 330.0
	room := wide - left - right - margin
	for i := range p.Memory {
		f := &p.Memory[i]
		if f.Peak == 0 {
			continue
		}
		c.text(margin, y+15, "start", "", "%s", p.Specs()[f.Device].ID)
		x := left
		for u, b := range f.PeakBy {
			w := room * float64(b) / float64(most)
			c.box(x, y+3, w, 16, 0, "fill:"+usageFills[u%len(usageFills)], fmt.Sprintf("%s %s", usageNames[u], units.Bytes(b)))
			x += w
		}
		if f.Tight() {
			at := left + room*float64(f.Limit)/float64(most)
			c.line(at, y, at, y+22, "limit")
		}
		c.text(left+room*float64(f.Peak)/float64(most)+8, y+15, "start", "small", "%s", memoryText(f))
		y += 24
	}
	x := left
	for u, name := range usageNames[:len(usageNames)-1] { // a step of training has no caches
		c.box(x, y+6, 10, 10, 2, "fill:"+usageFills[u], name)
		c.text(x+14, y+15, "start", "small", "%s", name)
		x += 30 + 7*float64(len(name))
	}
	if tight {
		c.line(x+5, y+5, x+5, y+17, "limit")
		c.text(x+14, y+15, "start", "small", "limit")
	}
	return y + 20
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

// The usages of memory, in the order of device.Usage.
var (
	usageNames = []string{"weights", "optimizer state", "gradients", "activations", "input", "scratch", "caches"}
	usageFills = []string{"#2f6db5", "#7aa6da", "#6bb8b0", "#e0a050", "#b58fd0", "#b8c2cc", "#d9c46a"}
)
