package picture

import (
	"cmp"
	"fmt"
	"math"
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

// The lanes begin at laneLeft, and leave laneRight for half of the last tick's label.
const laneLeft, laneRight = 90.0, 24.0

// leastEdged is the width from which on a launch has an edge. Narrower ones would be all edge.
const leastEdged = 4.0

// Timeline is when the launches and copies of a step run. Times are in seconds from its
// first launch, devices are indices in PlanOptions.Devices.
type Timeline struct {
	Launches []Launch
	Copies   []Copy
	words    func(time float64) string // of a time with its unit; nil: the times are seconds
	ticks    func(low, high float64, most int) []svg.Tick
}

// Launch is a launch in time.
type Launch struct {
	Name       string
	Kinds      []schedule.Kind // the passes that it runs, in their order
	Device     int
	Start, End float64
	Waits      []partition.Wait // between them, in order
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

// fromWork is the timeline with times from the first work or copy on. Launches that wait
// before it begin then.
func (t Timeline) fromWork() Timeline {
	first := math.Inf(1)
	for i := range t.Launches {
		first = min(first, t.Launches[i].works(t.leastSeen())[0].Start)
	}
	for i := range t.Copies {
		first = min(first, t.Copies[i].Start)
	}
	from := func(time float64) float64 { return max(0, time-first) }
	t.Launches, t.Copies = slices.Clone(t.Launches), slices.Clone(t.Copies)
	for i := range t.Launches {
		l := &t.Launches[i]
		l.Start, l.End, l.Waits = from(l.Start), from(l.End), slices.Clone(l.Waits)
		for k, w := range l.Waits {
			l.Waits[k] = partition.Wait{Start: from(w.Start), End: from(w.End)}
		}
	}
	for i := range t.Copies {
		k := &t.Copies[i]
		k.Start, k.End = from(k.Start), from(k.End)
	}
	return t
}

// leastSeen is the time of about a pixel.
func (t Timeline) leastSeen() float64 { return t.end() / 1000 }

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
		t.Launches = append(t.Launches, Launch{l.Launch.Name(), l.Launch.Kinds(), l.Device, l.Start, l.End, l.Waits})
	}
	for _, k := range x.Copies {
		from, to := string(p.Specs()[k.From].ID), string(p.Specs()[k.To].ID)
		t.Copies = append(t.Copies, Copy{k.Value.Name, k.Bytes, from, to, k.To, k.Start, k.End, k.Hosted})
	}
	return t.fromWork()
}

// devices are those with a lane, in their order: those with a stage, and any other that runs
// a launch or a copy.
func (t Timeline) devices(p *partition.Plan) []int {
	list := slices.Clone(p.Devices())
	for i := range t.Launches {
		list = append(list, t.Launches[i].Device)
	}
	for i := range t.Copies {
		list = append(list, t.Copies[i].Device)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// inOrder are the launches by device and time.
func (t Timeline) inOrder() []Launch {
	list := slices.Clone(t.Launches)
	slices.SortStableFunc(list, func(a, b Launch) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Start, b.Start))
	})
	return list
}

// drawTimeline draws a step on a scale that ends at end, and returns the bottom.
func drawTimeline(c *svg.Picture, p *partition.Plan, title string, t Timeline, end, y float64) float64 {
	c.Text(svg.Head(svg.Margin, y, title).Fit(c.Width - 2*svg.Margin))
	if end <= 0 {
		return y
	}
	if t.words == nil {
		t.words, t.ticks = svg.Time, svg.TimeTicks
	}
	scale := (c.Width - laneLeft - laneRight) / end
	y += 12
	lanes := map[int]float64{}
	for i, d := range t.devices(p) {
		lanes[d] = y + float64(i)*laneHigh
		c.Text(svg.Text{X: svg.Margin, Y: lanes[d] + 17, Words: string(p.Specs()[d].ID)}.Fit(laneLeft - svg.Margin - 8))
	}
	bottom := y + float64(len(lanes))*laneHigh
	for _, tick := range t.ticks(0, end, 10) {
		x := laneLeft + tick.At*scale
		c.Line(x, y, x, bottom, svg.Style{Stroke: svg.Grid})
		c.Text(svg.Small(x, bottom+13, tick.Label).At(svg.Middle))
	}
	for _, l := range t.inOrder() {
		t.drawLaunch(c, &l, lanes[l.Device], scale)
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

// main is the pass that takes most of a launch's time, by its place in Kinds: of several in
// one, the backward pass.
func (l *Launch) main() int { return max(0, slices.Index(l.Kinds, schedule.Backward)) }

// bandHigh is the height of the band of a pass that is not the main one.
const bandHigh = 4.0

// drawLaunch draws a launch in its lane: a block for each time in which it works, and a thin
// line between two of them. One that takes no time is a line across the lane. A block of
// several passes has the colour of the main one, between bands of those before and after it.
func (t Timeline) drawLaunch(c *svg.Picture, l *Launch, y, scale float64) {
	main := l.main()
	fill := passFills[l.Kinds[main]]
	hint := fmt.Sprintf("%s: %s, from %s on", l.Name, t.words(l.End-l.Start), t.words(l.Start))
	if waited := l.waited(); waited > 0 {
		hint += fmt.Sprintf("; it waits for %s of that", t.words(waited))
	}
	x := func(time float64) float64 { return laneLeft + time*scale }
	if l.End == l.Start {
		c.Rect(svg.Box{X: x(l.Start) - 1, Y: y - 2, W: 2, H: launchHigh + 4}, 1, svg.Style{Fill: fill, Hint: hint})
		return
	}
	var widest svg.Box
	works := l.works(t.leastSeen())
	for i, w := range works {
		if i > 0 {
			c.Line(x(works[i-1].End), y+launchHigh/2, x(w.Start), y+launchHigh/2, svg.Style{Stroke: svg.Edge, Hint: hint})
		}
		at := svg.Box{X: x(w.Start), Y: y, W: max(0.5, x(w.End)-x(w.Start)), H: launchHigh}
		style := svg.Style{Fill: fill, Hint: hint}
		if at.W >= leastEdged {
			style.Stroke = svg.White
		}
		c.Rect(at, min(3, at.W/2), style)
		for k, kind := range l.Kinds {
			band := svg.Box{X: at.X, Y: y + float64(k)*bandHigh, W: at.W, H: bandHigh}
			if k > main {
				band.Y = y + launchHigh - float64(len(l.Kinds)-k)*bandHigh
			}
			if k != main {
				c.Rect(band, 0, svg.Style{Fill: passFills[kind], Stroke: style.Stroke, Hint: hint})
			}
		}
		if at.W > widest.W {
			widest = at
		}
	}
	name := svg.Text{X: widest.X + widest.W/2, Y: y + 16, Words: l.Name, Size: svg.SmallSize, Color: svg.On(fill), Anchor: svg.Middle, Inside: true}
	if name.Wide()+4 < widest.W {
		c.Text(name)
	}
}

// works are the times between a launch's waits, in order. Waits and works shorter than least
// are not seen, and left out; one work remains.
func (l *Launch) works(least float64) (list []partition.Wait) {
	from := l.Start
	work := func(until float64) {
		if until-from > least {
			list = append(list, partition.Wait{Start: from, End: until})
		}
	}
	for _, w := range l.Waits {
		if w.End-w.Start >= least {
			work(w.Start)
			from = w.End
		}
	}
	work(l.End)
	if len(list) == 0 {
		list = append(list, partition.Wait{Start: from, End: l.End})
	}
	return list
}

// waited is the time of all waits.
func (l *Launch) waited() (sum float64) {
	for _, w := range l.Waits {
		sum += w.End - w.Start
	}
	return sum
}

// passes are the kinds of launches in words, in the order of a legend.
var passes = []struct {
	kind  schedule.Kind
	words string
}{
	{schedule.Forward, "forward (F)"}, {schedule.Backward, "backward (B)"}, {schedule.Weights, "weight gradients (W)"},
	{schedule.Reduce, "reduction (R)"}, {schedule.Update, "update (U)"},
}

// colors explain the colours of timelines: those of the passes and copies that they have.
func colors(lines ...Timeline) (list []svg.Entry) {
	has := map[schedule.Kind]bool{}
	var peers, hosted, host, waits bool
	for _, t := range lines {
		least := t.leastSeen()
		for i := range t.Launches {
			for _, kind := range t.Launches[i].Kinds {
				has[kind] = true
			}
			waits = waits || len(t.Launches[i].works(least)) > 1
		}
		for _, k := range t.Copies {
			ofHost := k.From == hostName || k.To == hostName
			peers, hosted, host = peers || !ofHost && !k.Hosted, hosted || !ofHost && k.Hosted, host || ofHost
		}
	}
	add := func(have bool, e svg.Entry) {
		if have {
			list = append(list, e)
		}
	}
	for _, p := range passes {
		add(has[p.kind], area(p.words, passFills[p.kind]))
	}
	add(waits, svg.Entry{Words: "a launch waits for an input", Style: svg.Style{Stroke: svg.Edge}})
	add(peers, area("copy between devices", peerFill))
	add(hosted, area("copy between kinds of devices, through the host", hostedFill))
	add(host, area("copy from or to the host", hostFill))
	return list
}
