package picture

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// laneHigh is the height of a device's lane: launches, and copies to it below.
const laneHigh, launchHigh, copyHigh = 44.0, 24.0, 8.0

// passFills are the colors of passes.
var passFills = map[schedule.Kind]string{
	schedule.Forward: "#2f6db5", schedule.Backward: "#3f9b5b", schedule.Weights: "#2a9d96", schedule.Reduce: "#8e5fb3", schedule.Update: "#d08c2a",
}

// copyFill is the color of copies.
const copyFill = "#c0392b"

// drawTimeline draws the predicted course of a step, and returns the bottom.
func drawTimeline(c *canvas, p *partition.Plan, x *partition.Prediction, y, wide float64) float64 {
	end := 0.0
	for _, l := range x.Launches {
		end = max(end, l.End)
	}
	c.text(margin, y, "start", "stage", "A step, predicted: schedule %s, %d microbatches", p.Schedule(), p.Microbatches)
	if end <= 0 {
		return y
	}
	const left = 90.0
	scale := (wide - left - margin) / end
	y += 12
	lanes := map[int]float64{}
	for i, d := range p.Devices() {
		lanes[d] = y + float64(i)*laneHigh
		c.text(margin, lanes[d]+17, "start", "", "%s", p.Specs()[d].ID)
	}
	bottom := y + float64(len(lanes))*laneHigh
	drawAxis(c, end, scale, left, y, bottom)
	for i := range x.Launches {
		drawLaunch(c, &x.Launches[i], left, lanes[x.Launches[i].Device], scale)
	}
	for _, k := range x.Copies {
		hint := fmt.Sprintf("%s, %s from %s to %s", k.Value.Name, units.Bytes(k.Bytes), p.Specs()[k.From].ID, p.Specs()[k.To].ID)
		c.box(left+k.Start*scale, lanes[k.To]+launchHigh+2, (k.End-k.Start)*scale, copyHigh, 1, "fill:"+copyFill, hint)
	}
	return drawLegend(c, left, bottom+20)
}

// drawAxis draws the times.
func drawAxis(c *canvas, end, scale, left, top, bottom float64) {
	step := math.Pow(10, math.Floor(math.Log10(end)))
	for end/step < 4 {
		step /= 2
	}
	for t := 0.0; t <= end; t += step {
		c.line(left+t*scale, top, left+t*scale, bottom, "tick")
		c.text(left+t*scale, bottom+12, "middle", "small", "%s", milliseconds(t))
	}
}

// milliseconds is a time with three digits.
func milliseconds(s float64) string { return fmt.Sprintf("%.3g ms", 1e3*s) }

// drawLaunch draws a launch in its lane. Passes that run as one have the color of the
// last one, or of the backward pass if they have it.
func drawLaunch(c *canvas, l *partition.LaunchSpan, left, y, scale float64) {
	w := (l.End - l.Start) * scale
	name := l.Launch.Name()
	fill := passFills[l.Launch.Segment.Pass]
	switch {
	case l.Launch.Variant == &l.Launch.Segment.Reduce:
		fill = passFills[schedule.Reduce]
	case l.Launch.Segment.Passes.Has(schedule.Backward):
		fill = passFills[schedule.Backward]
	}
	c.box(left+l.Start*scale, y, w, launchHigh, 3, "fill:"+fill+";stroke:#fff", fmt.Sprintf("%s: %s, from %s on", name, milliseconds(l.End-l.Start), milliseconds(l.Start)))
	if float64(len(name))*6.4 < w {
		c.text(left+(l.Start+l.End)/2*scale, y+16, "middle", "cell", "%s", name)
	}
}

// drawLegend explains the colors.
func drawLegend(c *canvas, x, y float64) float64 {
	for _, k := range []struct{ name, fill string }{
		{"forward", passFills[schedule.Forward]}, {"backward", passFills[schedule.Backward]}, {"weight gradients", passFills[schedule.Weights]},
		{"reduction", passFills[schedule.Reduce]}, {"update", passFills[schedule.Update]}, {"copy to the device", copyFill},
	} {
		c.box(x, y, 10, 10, 2, "fill:"+k.fill, k.name)
		c.text(x+14, y+9, "start", "small", "%s", k.name)
		x += 34 + 6*float64(len(k.name))
	}
	return y + 14
}
