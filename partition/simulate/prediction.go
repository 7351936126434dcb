package simulate

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/speed"
	"github.com/berth-ml/berth/partition/step"
)

// Prediction is the course of a step, as a simulation of its launches gives it.
// Launches of a device run one after the other, and so do copies to it, which overlap
// the launches. A launch waits for the tensors that it reads: where it first reads them, on
// devices with late inputs and op by op.
type Prediction struct {
	Seconds  float64      // from the end of a step to the end of the next one
	Bubble   float64      // the share of that time in which the devices with stages wait
	Moving   float64      // of Seconds, in which launches wait for bytes that move for lack of memory: of the device that waits most
	Measured int          // launches of the step with a known time; the others are estimated from flops and bytes
	Launches []LaunchSpan // of one step, by device and time
	Copies   []CopySpan   // between devices, in that step
}

// String is for people: "a step takes 12 ms (…), 20% of it in the bubble".
func (p *Prediction) String() string {
	by := "measured segments"
	switch n := len(p.Launches); {
	case p.Measured == 0:
		by = "arithmetic and bytes, up to twice off"
	case p.Measured < n:
		by = fmt.Sprintf("%d measured launches and %d by arithmetic", p.Measured, n-p.Measured)
	}
	return fmt.Sprintf("predicted: %s a step (by %s), devices idle %.0f%% of it", units.Seconds(p.Seconds), by, 100*p.Bubble)
}

// LaunchSpan is a launch in time, in seconds from the step's first launch.
type LaunchSpan struct {
	Launch     step.Launch
	Device     int // index in PlanOptions.Devices
	Start, End float64
	Waits      []Wait // between them, for inputs, in order
}

// Wait is a time in which a launch waits.
type Wait struct{ Start, End float64 }

// Waited is the time of all waits.
func (l *LaunchSpan) Waited() (sum float64) {
	for _, w := range l.Waits {
		sum += w.End - w.Start
	}
	return sum
}

// CopySpan is a copy to a device in time.
type CopySpan struct {
	Value      *graph.Value
	From, To   int // indices in PlanOptions.Devices
	Bytes      int64
	Hosted     bool // it passes through host memory: the devices have no path of their own
	Start, End float64
}

// Step simulates a step of these launches among others of a run. Where memory is
// short, traces are those of the launches; nil otherwise.
func Step(check *stop.Check, speeds speed.Speeds, launches []step.Launch, memory []forecast.Forecast, traces []*forecast.Trace) (*Prediction, error) {
	s := newStepSimulation(speeds, launches, check)
	if traces != nil {
		s.movers = moversOf(&s.speeds, len(s.ready), memory, traces)
	}
	steps := 3 // the first one finds idle devices
	if len(launches) > mostToRepeat {
		steps = 1
	}
	var ends []float64
	for i := range steps {
		s.keep = i == steps-1
		if err := s.step(); err != nil {
			return nil, err
		}
		ends = append(ends, slices.Max(s.free))
	}
	out := &s.out
	out.Seconds = ends[steps-1]
	if steps > 1 {
		out.Seconds = (ends[steps-1] - ends[0]) / float64(steps-1)
	}
	s.finish()
	for _, m := range s.movers {
		if m != nil {
			out.Moving = max(out.Moving, m.stalled/float64(steps))
		}
	}
	return out, check.Err()
}

// mostToRepeat is the most launches of a step that is simulated more than once.
const mostToRepeat = 1 << 15

// stepSimulation is the state of simulated devices. A call of [Step] or [Busy] owns it. A step begins
// with the state that the one before has left, so that the first one's idle devices do not count.
type stepSimulation struct {
	speeds   speed.Speeds
	launches []step.Launch
	check    *stop.Check
	times    map[step.Run]runTime
	first    map[step.Run][]float64 // firstReads
	free     []float64              // per device: the end of its newest launch
	link     []float64              // per device: the end of the newest copy to it
	ready    [][]there              // by number of the instance: the devices that have its contents, in their order
	movers   []*mover               // per device; nil where all tensors stay
	inputs   []reading              // of the launch under way
	keep     bool                   // the step is the one that out shows
	out      Prediction
}

// Busy is, per device, the time for which it works in a step of these launches: that
// of the launches, and of the bytes that move for lack of memory.
func Busy(speeds speed.Speeds, launches []step.Launch, memory []forecast.Forecast) []float64 {
	s, sums := newStepSimulation(speeds, launches, stop.When(nil)), make([]float64, len(speeds.Devices))
	for i := range launches {
		l := &launches[i]
		sums[l.Device] += s.time(l, l.Device)
	}
	for i := range memory {
		f := &memory[i]
		sums[f.Device] += speed.MovingSeconds(f.Moved(), speeds.Devices[f.Device])
	}
	return sums
}

// runTime is the time of a variant on a device.
type runTime struct {
	seconds  float64
	measured bool
}

// there is a device that has an instance, and since when.
type there struct {
	device int
	since  float64
}

func newStepSimulation(speeds speed.Speeds, launches []step.Launch, check *stop.Check) *stepSimulation {
	n := len(speeds.Devices)
	return &stepSimulation{
		speeds: speeds, launches: launches, check: check, times: map[step.Run]runTime{}, first: map[step.Run][]float64{},
		free: make([]float64, n), link: make([]float64, n), ready: make([][]there, step.Count(launches)), movers: make([]*mover, n),
	}
}

// step simulates the launches of one step.
func (s *stepSimulation) step() error {
	for i := range stop.Each(s.check, s.launches) {
		l := &s.launches[i]
		d := l.Device
		x := s.run(l, d)
		s.free[d] = x.End
		for k := range l.Needs {
			n := &l.Needs[k]
			if n.Mode != segment.Read {
				s.write(n, d, x.End, l.Repeats())
			}
			if m := s.movers[d]; m != nil {
				m.use(n, x.End)
			}
		}
		if s.keep {
			s.out.Launches = append(s.out.Launches, x)
		}
	}
	return s.check.Err()
}

// run places a launch in time.
func (s *stepSimulation) run(l *step.Launch, d int) LaunchSpan {
	free, seconds := s.free[d], s.time(l, d)
	late := s.late(d)
	start, end := course(free, seconds, s.readings(l, d, nil), late)
	if m := s.movers[d]; m != nil {
		without, own := end, m.begin(free)
		start, end = course(own, seconds, s.readings(l, d, m), late)
		m.stalled += end - without
	}
	x := LaunchSpan{Launch: *l, Device: d, Start: start, End: end}
	if s.keep && late {
		x.Waits = waits(start, seconds, s.inputs)
	}
	return x
}

// late reports whether launches on a device wait for each input where they first read it.
func (s *stepSimulation) late(d int) bool {
	return s.speeds.OpByOp || s.speeds.Devices[d].LateInputs
}

// readings are the inputs of a launch, with the times at which m has brought them back; nil
// brings nothing. The next call overwrites them.
func (s *stepSimulation) readings(l *step.Launch, d int, m *mover) []reading {
	s.inputs = s.inputs[:0]
	var first []float64
	if s.late(d) {
		first = s.firstReads(l.Variant, d)
	}
	for j, at := range l.In {
		n := &l.Needs[at]
		if n.Mode == segment.Write {
			continue
		}
		there := s.arrival(n, d)
		if m != nil {
			there = max(there, m.arrival(n))
		}
		x := reading{there: there}
		if first != nil {
			x.share = first[j]
		}
		s.inputs = append(s.inputs, x)
	}
	return s.inputs
}

// firstReads are, per input of a variant, the shares of its work before it reads the input.
func (s *stepSimulation) firstReads(v *segment.Variant, d int) []float64 {
	k := step.Run{Variant: v, Device: d}
	first, known := s.first[k]
	if !known {
		first = firstReads(s.check, v, s.speeds.Devices[d])
		s.first[k] = first
	}
	return first
}

// arrival is the time from which a device has an instance. If another has it, it is
// copied once.
func (s *stepSimulation) arrival(x *step.Need, d int) float64 {
	on := s.ready[x.Number]
	if on == nil {
		return 0 // a constant or an input, or a variable that was not written yet
	}
	at, has := slices.BinarySearchFunc(on, d, func(t there, d int) int { return t.device - d })
	if has {
		return on[at].since
	}
	from := on[0]
	start := max(from.since, s.link[d])
	end := start + s.speeds.CopySeconds(x.Value.Meta.Bytes(), from.device, d)
	s.ready[x.Number] = slices.Insert(on, at, there{d, end})
	s.link[d] = end
	if s.keep {
		s.out.Copies = append(s.out.Copies, CopySpan{x.Value, from.device, d, x.Value.Meta.Bytes(), !speed.Direct(s.speeds.Devices[from.device], s.speeds.Devices[d]), start, end})
	}
	return end
}

// write makes a device the only one that has an instance, or one more that does.
func (s *stepSimulation) write(x *step.Need, d int, end float64, more bool) {
	on := s.ready[x.Number]
	if !more {
		on = on[:0]
	}
	at, _ := slices.BinarySearchFunc(on, d, func(t there, d int) int { return t.device - d })
	s.ready[x.Number] = slices.Insert(on, at, there{d, end})
}

// time is the seconds of a launch, with the time until the next one can begin.
func (s *stepSimulation) time(l *step.Launch, d int) float64 {
	k := step.Run{Variant: l.Variant, Device: d}
	t, known := s.times[k]
	if !known {
		t.seconds, t.measured = s.speeds.RunSeconds(s.check, l.Variant.Graph, d)
		s.times[k] = t
	}
	if s.keep && t.measured {
		s.out.Measured++
	}
	return speed.Overhead + t.seconds
}

// finish fills in the shares, and counts times from the first launch.
func (s *stepSimulation) finish() {
	out := &s.out
	slices.SortStableFunc(out.Launches, func(x, y LaunchSpan) int { return x.Device - y.Device })
	if len(out.Launches) == 0 {
		return
	}
	first := out.Launches[0].Start
	used, busy := map[int]bool{}, 0.0
	for i := range out.Launches {
		l := &out.Launches[i]
		first, busy = min(first, l.Start), busy+l.End-l.Start-l.Waited()
		used[l.Device] = true
	}
	for i := range out.Launches {
		l := &out.Launches[i]
		l.Start, l.End = l.Start-first, l.End-first
		for k, w := range l.Waits {
			l.Waits[k] = Wait{w.Start - first, w.End - first}
		}
	}
	for i := range out.Copies {
		out.Copies[i].Start -= first
		out.Copies[i].End -= first
	}
	out.Bubble = max(0, 1-busy/(out.Seconds*float64(len(used))))
}
