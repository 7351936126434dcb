package picture

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// laneHigh is the height of a device's lane: launches, and copies to it below.
const laneHigh, launchHigh, copyHigh = 44.0, 24.0, 8.0

// passFills are the colours of passes.
var passFills = map[schedule.Kind]svg.Color{
	schedule.Forward: svg.Blue, schedule.Backward: svg.Green, schedule.Weights: svg.Sky, schedule.Reduce: svg.Purple, schedule.Update: svg.Orange,
}

// The colours of copies.
const (
	peerFill   = svg.Vermilion // between devices
	hostedFill = svg.Ink       // between devices, through the host
	hostFill   = svg.Grey      // from or to the host
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
	words    func(time float64) string // of a time with its unit; nil: the times are seconds
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
func drawTimeline(c *svg.Picture, p *partition.Plan, title string, t Timeline, end, y float64) float64 {
	c.Text(head(margin, y, title))
	if end <= 0 {
		return y
	}
	if t.words == nil {
		t.words = seconds
	}
	scale := (c.Width - laneLeft - margin) / end
	y += 12
	lanes := map[int]float64{}
	for i, d := range p.Devices() {
		lanes[d] = y + float64(i)*laneHigh
		c.Text(svg.Text{X: margin, Y: lanes[d] + 17, Words: string(p.Specs()[d].ID)})
	}
	bottom := y + float64(len(lanes))*laneHigh
	for _, tick := range svg.TicksOf(0, end, 10, t.words) {
		x := laneLeft + tick.At*scale
		c.Line(x, y, x, bottom, svg.Style{Stroke: svg.Grid})
		c.Text(centred(small(x, bottom+13, tick.Label)))
	}
	for i := range t.Launches {
		t.drawLaunch(c, &t.Launches[i], lanes[t.Launches[i].Device], scale)
	}
	for _, k := range t.Copies {
		drawCopy(c, k, lanes[k.Device]+launchHigh+2, scale)
	}
	return bottom + 13
}

// drawCopy draws a copy in its lane.
func drawCopy(c *svg.Picture, k Copy, y, scale float64) {
	fill, way := peerFill, ""
	switch {
	case k.From == hostName || k.To == hostName:
		fill = hostFill
	case k.Hosted:
		fill, way = hostedFill, " through the host"
	}
	hint := fmt.Sprintf("%s, %s from %s to %s%s", k.Name, units.Bytes(k.Bytes), k.From, k.To, way)
	c.Rect(svg.Box{X: laneLeft + k.Start*scale, Y: y, W: max(0.5, (k.End-k.Start)*scale), H: copyHigh}, 1, svg.Style{Fill: fill, Hint: hint})
}

// drawLaunch draws a launch in its lane. One that takes no time is a line.
func (t Timeline) drawLaunch(c *svg.Picture, l *Launch, y, scale float64) {
	at, fill := svg.Box{X: laneLeft + l.Start*scale, Y: y, W: (l.End - l.Start) * scale, H: launchHigh}, passFills[l.Kind]
	hint := fmt.Sprintf("%s: %s, from %s on", l.Name, t.words(l.End-l.Start), t.words(l.Start))
	if at.W == 0 {
		c.Rect(svg.Box{X: at.X - 1, Y: y - 2, W: 2, H: launchHigh + 4}, 1, svg.Style{Fill: fill, Hint: hint})
		return
	}
	c.Rect(at, 3, svg.Style{Fill: fill, Stroke: svg.White, Hint: hint})
	name := svg.Text{X: at.X + at.W/2, Y: y + 16, Words: l.Name, Size: svg.SmallSize, Color: svg.On(fill), Anchor: svg.Middle, Inside: true}
	if name.Wide()+4 < at.W {
		c.Text(name)
	}
}

// seconds is a time with three digits: 0.04 ms, 12.5 ms, 3.2 s.
func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.3g ms", 1e3*s)
	}
	return svg.Rounded(s) + " s"
}

// The colours of a timeline.
var (
	passes = []svg.Entry{
		area("forward", passFills[schedule.Forward]), area("backward", passFills[schedule.Backward]), area("weight gradients", passFills[schedule.Weights]),
		area("reduction", passFills[schedule.Reduce]), area("update", passFills[schedule.Update]),
	}
	peerCopies   = area("copy between devices", peerFill)
	hostedCopies = area("copy between kinds of devices, through the host", hostedFill)
	hostCopies   = area("copy from or to the host", hostFill)
)

// copyColors are the colours of the copies of a prediction.
func (t Timeline) copyColors() (list []svg.Entry) {
	hosted := func(k Copy) bool { return k.Hosted }
	if !slices.ContainsFunc(t.Copies, hosted) || slices.ContainsFunc(t.Copies, func(k Copy) bool { return !hosted(k) }) {
		list = append(list, peerCopies)
	}
	if slices.ContainsFunc(t.Copies, hosted) {
		list = append(list, hostedCopies)
	}
	return list
}
