package picture

import (
	"fmt"
	"math"
	"slices"

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

// The colors of copies.
const (
	peerFill   = "#c0392b" // between devices
	hostedFill = "#b5559b" // between devices, through the host
	hostFill   = "#7f8c9a" // from or to the host
)

// hostName is the host in Copy.From and Copy.To.
const hostName = "host"

// laneLeft is where the lanes begin.
const laneLeft = 90.0

// Timeline is when the launches and copies of a step run. Times are in seconds from its
// first launch, devices are indices in PlanOptions.Devices.
type Timeline struct {
	Launches []Launch
	Copies   []Copy
	unit     func(time float64) string // words of a time; nil: the times are seconds
}

// words are a time with its unit.
func (t Timeline) words(time float64) string {
	if t.unit == nil {
		return milliseconds(time)
	}
	return t.unit(time)
}

// Launch is a launch in time.
type Launch struct {
	Name       string
	Kind       schedule.Kind
	Device     int
	Start, End float64
}

// Copy is a copy in time.
type Copy struct {
	Name       string // of the tensor
	Bytes      int64
	From, To   string // IDs of devices, or "host"
	Device     int    // on whose stream it runs
	Start, End float64
	Hosted     bool // it passes through the host
}

// end is the end of the last launch.
func (t Timeline) end() (end float64) {
	for i := range t.Launches {
		end = max(end, t.Launches[i].End)
	}
	return end
}

// predicted is a prediction as a timeline.
func predicted(p *partition.Plan, x *partition.Prediction) (t Timeline) {
	for i := range x.Launches {
		l := &x.Launches[i]
		t.Launches = append(t.Launches, Launch{l.Launch.Name(), l.Launch.Kind(), l.Device, l.Start, l.End})
	}
	for _, k := range x.Copies {
		from, to := string(p.Specs()[k.From].ID), string(p.Specs()[k.To].ID)
		t.Copies = append(t.Copies, Copy{k.Value.Name, k.Bytes, from, to, k.To, k.Start, k.End, k.Hosted})
	}
	return t
}

// drawTimeline draws a step on a scale that ends at end, and returns the bottom.
func drawTimeline(c *canvas, p *partition.Plan, title string, t Timeline, end, y, wide float64) float64 {
	c.text(margin, y, "start", "stage", "%s", title)
	if end <= 0 {
		return y
	}
	scale := (wide - laneLeft - margin) / end
	y += 12
	lanes := map[int]float64{}
	for i, d := range p.Devices() {
		lanes[d] = y + float64(i)*laneHigh
		c.text(margin, lanes[d]+17, "start", "", "%s", p.Specs()[d].ID)
	}
	bottom := y + float64(len(lanes))*laneHigh
	t.drawAxis(c, end, scale, y, bottom)
	for i := range t.Launches {
		t.drawLaunch(c, &t.Launches[i], lanes[t.Launches[i].Device], scale)
	}
	for _, k := range t.Copies {
		drawCopy(c, k, lanes[k.Device]+launchHigh+2, scale)
	}
	return bottom + 12
}

// drawCopy draws a copy in its lane.
func drawCopy(c *canvas, k Copy, y, scale float64) {
	fill, way := peerFill, ""
	switch {
	case k.From == hostName || k.To == hostName:
		fill = hostFill
	case k.Hosted:
		fill, way = hostedFill, " through the host"
	}
	hint := fmt.Sprintf("%s, %s from %s to %s%s", k.Name, units.Bytes(k.Bytes), k.From, k.To, way)
	c.box(laneLeft+k.Start*scale, y, (k.End-k.Start)*scale, copyHigh, 1, "fill:"+fill, hint)
}

// drawAxis draws the times.
func (t Timeline) drawAxis(c *canvas, end, scale, top, bottom float64) {
	step := math.Pow(10, math.Floor(math.Log10(end)))
	for end/step < 4 {
		step /= 2
	}
	for at := 0.0; at <= end; at += step {
		x := laneLeft + at*scale
		c.line(x, top, x, bottom, "tick")
		c.text(x, bottom+12, "middle", "small", "%s", t.words(at))
	}
}

// milliseconds is a time with three digits.
func milliseconds(s float64) string { return fmt.Sprintf("%.3g ms", 1e3*s) }

// drawLaunch draws a launch in its lane. One that takes no time is a line.
func (t Timeline) drawLaunch(c *canvas, l *Launch, y, scale float64) {
	w, name, fill := (l.End-l.Start)*scale, l.Name, passFills[l.Kind]
	hint := fmt.Sprintf("%s: %s, from %s on", name, t.words(l.End-l.Start), t.words(l.Start))
	if w == 0 {
		c.box(laneLeft+l.Start*scale-1, y-2, 2, launchHigh+4, 1, "fill:"+fill, hint)
		return
	}
	c.box(laneLeft+l.Start*scale, y, w, launchHigh, 3, "fill:"+fill+";stroke:#fff", hint)
	if float64(len(name))*6.4 < w {
		c.text(laneLeft+(l.Start+l.End)/2*scale, y+16, "middle", "cell", "%s", name)
	}
}

// color is a line of a legend.
type color struct{ name, fill string }

// The colors of a timeline.
var (
	passes = []color{
		{"forward", passFills[schedule.Forward]}, {"backward", passFills[schedule.Backward]}, {"weight gradients", passFills[schedule.Weights]},
		{"reduction", passFills[schedule.Reduce]}, {"update", passFills[schedule.Update]},
	}
	peerCopies   = color{"copy between devices", peerFill}
	hostedCopies = color{"copy between kinds of devices, through the host", hostedFill}
	hostCopies   = color{"copy from or to the host", hostFill}
)

// copyColors are the colors of the copies of a prediction.
func (t Timeline) copyColors() (colors []color) {
	hosted := func(k Copy) bool { return k.Hosted }
	if !slices.ContainsFunc(t.Copies, hosted) || slices.ContainsFunc(t.Copies, func(k Copy) bool { return !hosted(k) }) {
		colors = append(colors, peerCopies)
	}
	if slices.ContainsFunc(t.Copies, hosted) {
		colors = append(colors, hostedCopies)
	}
	return colors
}

// drawLegend explains colors.
func drawLegend(c *canvas, x, y float64, colors ...color) float64 {
	for _, k := range colors {
		c.box(x, y, 10, 10, 2, "fill:"+k.fill, k.name)
		c.text(x+14, y+9, "start", "small", "%s", k.name)
		x += 34 + 6*float64(len(k.name))
	}
	return y + 14
}
