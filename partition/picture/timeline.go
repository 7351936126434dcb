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

// The colors of copies.
const (
	peerFill = "#c0392b" // between devices
	hostFill = "#7f8c9a" // from or to the host
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
		t.Copies = append(t.Copies, Copy{k.Value.Name, k.Bytes, from, to, k.To, k.Start, k.End})
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
	drawAxis(c, end, scale, laneLeft, y, bottom)
	for i := range t.Launches {
		drawLaunch(c, &t.Launches[i], laneLeft, lanes[t.Launches[i].Device], scale)
	}
	for _, k := range t.Copies {
		drawCopy(c, k, lanes[k.Device]+launchHigh+2, scale)
	}
	return bottom + 12
}

// drawCopy draws a copy in its lane.
func drawCopy(c *canvas, k Copy, y, scale float64) {
	fill := peerFill
	if k.From == hostName || k.To == hostName {
		fill = hostFill
	}
	hint := fmt.Sprintf("%s, %s from %s to %s", k.Name, units.Bytes(k.Bytes), k.From, k.To)
	c.box(laneLeft+k.Start*scale, y, (k.End-k.Start)*scale, copyHigh, 1, "fill:"+fill, hint)
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

// drawLaunch draws a launch in its lane.
func drawLaunch(c *canvas, l *Launch, left, y, scale float64) {
	w, name, fill := (l.End-l.Start)*scale, l.Name, passFills[l.Kind]
	c.box(left+l.Start*scale, y, w, launchHigh, 3, "fill:"+fill+";stroke:#fff", fmt.Sprintf("%s: %s, from %s on", name, milliseconds(l.End-l.Start), milliseconds(l.Start)))
	if float64(len(name))*6.4 < w {
		c.text(left+(l.Start+l.End)/2*scale, y+16, "middle", "cell", "%s", name)
	}
}

// drawLegend explains the colors.
func drawLegend(c *canvas, x, y float64) float64 {
	for _, k := range []struct{ name, fill string }{
		{"forward", passFills[schedule.Forward]}, {"backward", passFills[schedule.Backward]}, {"weight gradients", passFills[schedule.Weights]},
		{"reduction", passFills[schedule.Reduce]}, {"update", passFills[schedule.Update]}, {"copy between devices", peerFill}, {"copy from or to the host", hostFill},
	} {
		c.box(x, y, 10, 10, 2, "fill:"+k.fill, k.name)
		c.text(x+14, y+9, "start", "small", "%s", k.name)
		x += 34 + 6*float64(len(k.name))
	}
	return y + 14
}
