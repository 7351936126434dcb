package simulate

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
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
	Moving   Moving       // for lack of memory: of the device whose launches wait most
	Measured int          // launches of the step with a known time; the others are estimated from flops and bytes
	Launches []LaunchSpan // of one step, by device and time; of more than FewRanks none
	Copies   []CopySpan   // between devices, in that step; of more than FewRanks none
	Ranks    []Rank       // what each does in that step; nil: one process has all devices
	Count    int          // launches of the step
}

// Moving is about the bytes that move in a step for lack of memory, in seconds.
type Moving struct {
	Waits  float64 // of the step, in which launches wait for them
	Copies float64 // time of the copies
	Hidden float64 // of Copies, in which launches work meanwhile
	// Most is what Hidden can be: no more of a copy than the launches between the uses of its tensor take, of those that leave
	// room for it, and of the copies of one direction together no more than all launches take.
	Most float64
}

// String is for people: "2.5 ms of copies for lack of memory, 1.8 ms (72%) during launches, and at most 2 ms can be".
func (m *Moving) String() string {
	share := func(s float64) string {
		return fmt.Sprintf("%s (%.0f%%)", units.Seconds(s), 100*s/max(m.Copies, 1e-12))
	}
	return fmt.Sprintf("copies for lack of memory take %s, %s of it during launches; at most %s can be", units.Seconds(m.Copies), share(m.Hidden), share(m.Most))
}

// FewRanks is the most ranks of which a prediction has each launch and each copy.
const FewRanks = 16

// Rank is what a rank does in a step.
type Rank struct {
	Sent, Received int64   // bytes
	Messages       int     // that it sends
	Working        float64 // seconds for which its devices run launches: of the one that works longest
	Waiting        float64 // the rest of the step's time, in which that device waits for others
}

// String is for people: "a step takes 12 ms (…), 20% of it in the bubble".
func (p *Prediction) String() string {
	by := "measured segments"
	switch n := p.Count; {
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
	Hosted     bool // it passes through host memory: the devices have no path of their own, or it is sent from rank to rank
	Start, End float64
}

// Step simulates a step of these launches among others of a run. Where memory is
// short, traces are those of the launches; nil otherwise.
func Step(check *stop.Check, speeds speed.Speeds, launches []step.Launch, memory []forecast.Forecast, traces []*forecast.Trace) (*Prediction, error) {
	s := newStepSimulation(speeds, check)
	if traces != nil {
		s.cores = coresOf(speeds.Devices, speeds.Ranks, true)
		s.movers = moversOf(&s.speeds, step.Count(launches), memory, traces)
	}
	return s.predict(func(visit func(*step.Launch)) error {
		for i := range stop.Each(check, launches) {
			visit(&launches[i])
		}
		return check.Err()
	})
}

// Walk is Step for many ranks, whose launches are not listed: each call of walk goes through those of a step.
func Walk(check *stop.Check, speeds speed.Speeds, walk func(visit func(*step.Launch)) error) (*Prediction, error) {
	return newStepSimulation(speeds, check).predict(walk)
}

// predict simulates steps.
func (s *stepSimulation) predict(walk func(visit func(*step.Launch)) error) (*Prediction, error) {
	var ends []float64
	before := 0.0
	steps := 3 // the first one finds idle devices
	for i := 0; i < steps; i++ {
		s.keep = i == steps-1
		clear(s.busy)
		clear(s.counts)
		s.out.Measured, s.out.Count = 0, 0
		for r := range s.counts { // what is sent from now on was written in the step before, at the earliest
			s.sends[r].forget(before)
			s.gets[r].forget(before)
		}
		for _, c := range s.cores {
			c.forget(before)
		}
		before = slices.Min(s.free)
		if err := walk(s.visit); err != nil {
			return nil, err
		}
		ends = append(ends, slices.Max(s.free))
		for _, m := range s.movers {
			if m != nil {
				m.stalls = append(m.stalls, m.stalled)
			}
		}
		switch n := s.out.Count; {
		case i > 0 || n <= mostToRepeat:
		case s.counts == nil:
			steps = 1
		default:
			steps = 2 // what a rank has written, others are sent in the next step
		}
	}
	out := &s.out
	out.Seconds = meanStep(ends)
	s.finish()
	for _, m := range s.movers {
		if m != nil {
			if x := m.moving(); out.Moving.Copies == 0 || x.Waits > out.Moving.Waits {
				out.Moving = x
			}
		}
	}
	return out, s.check.Err()
}

// meanStep is the mean of a step by sums at the ends of steps: of all but the first, if there are more.
func meanStep(sums []float64) float64 {
	last := len(sums) - 1
	if last == 0 {
		return sums[0]
	}
	return (sums[last] - sums[0]) / float64(last)
}

// mostToRepeat is the most launches of a step that is simulated more than once.
const mostToRepeat = 1 << 15

// stepSimulation is the state of simulated devices. A call of [Step], [Walk] or [Busy] owns it. A step begins
// with the state that the one before has left, so that the first one's idle devices do not count.
type stepSimulation struct {
	speeds speed.Speeds
	check  *stop.Check
	like   []int // per device: the first one with the same description, which takes the same times
	times  map[step.Run]runTime
	first  map[step.Run][]float64 // firstReads
	free   []float64              // per device: the end of its newest launch
	link   []float64              // per device: the end of the newest copy to it
	sends  []link                 // per rank: of its messages
	gets   []link                 // per rank: of the messages to it
	ready  []holders              // by number of the instance: who has its contents
	movers []*mover               // per device; nil where all tensors stay
	cores  []*cores               // per rank, of the host; nil where nobody competes for them
	inputs []reading              // of the launch under way
	keep   bool                   // the step is the one that out shows
	busy   []float64              // per device: of the step
	counts []Rank                 // of the step
	out    Prediction
}

// Busy is, per device, the time for which it works in a step of these launches: that
// of the launches, which walk goes through, and of the bytes that move for lack of memory.
func Busy(speeds speed.Speeds, walk func(visit func(*step.Launch)) error, memory []forecast.Forecast) ([]float64, error) {
	s, sums := newStepSimulation(speeds, stop.When(nil)), make([]float64, len(speeds.Devices))
	err := walk(func(l *step.Launch) { sums[l.Device] += s.time(l, l.Device) })
	for i := range memory {
		f := &memory[i]
		sums[f.Device] += speed.MovingSeconds(f.Moved(), speeds.Devices[f.Device])
	}
	return sums, err
}

// runTime is the time of a variant on a device.
type runTime struct {
	seconds  float64
	measured bool
}

func newStepSimulation(speeds speed.Speeds, check *stop.Check) *stepSimulation {
	n := len(speeds.Devices)
	s := &stepSimulation{
		speeds: speeds, check: check, like: alike(speeds), times: map[step.Run]runTime{}, first: map[step.Run][]float64{},
		free: make([]float64, n), link: make([]float64, n), busy: make([]float64, n), movers: make([]*mover, n),
		cores: coresOf(speeds.Devices, speeds.Ranks, false),
	}
	if speeds.Ranks != nil {
		ranks := slices.Max(speeds.Ranks) + 1
		s.sends, s.gets, s.counts = make([]link, ranks), make([]link, ranks), make([]Rank, ranks)
	}
	return s
}

// alike is, per device, the first one with the same description that is as slow.
func alike(speeds speed.Speeds) (list []int) {
	type described struct {
		device.Spec
		slowness float64
	}
	first := map[described]int{}
	for d, spec := range speeds.Devices {
		spec.ID = ""
		x := described{spec, speeds.Slowness(d)}
		if _, known := first[x]; !known {
			first[x] = d
		}
		list = append(list, first[x])
	}
	return list
}

// visit simulates a launch.
func (s *stepSimulation) visit(l *step.Launch) {
	d := l.Device
	x := s.run(l, d)
	s.free[d] = x.End
	for k := range l.Needs {
		n := &l.Needs[k]
		if n.Mode != segment.Read {
			s.write(n, d, x.End, l.Repeats())
		}
		if m := s.movers[d]; m != nil {
			m.ended(n, x.End)
		}
	}
	s.busy[d] += x.End - x.Start - x.Waited()
	s.out.Count++
	if s.keep && len(s.counts) <= FewRanks {
		s.out.Launches = append(s.out.Launches, x)
	}
}

// run places a launch in time.
func (s *stepSimulation) run(l *step.Launch, d int) LaunchSpan {
	free, seconds := s.free[d], s.time(l, d)
	late, m, on := s.late(d), s.movers[d], s.turn(d)
	if m != nil {
		_, without, _ := course(free, seconds, s.readings(l, d, seconds, nil), late, turn{}, nil)
		free = m.begin(free, on.cores)
		_, with, _ := course(free, seconds, s.readings(l, d, seconds, m), late, turn{}, nil)
		m.stalled += with - without
	}
	x := LaunchSpan{Launch: *l, Device: d}
	x.Start, x.End, x.Waits = course(free, seconds, s.readings(l, d, seconds, m), late, on, nil)
	if m != nil {
		m.ran(x.Start, x.End, x.Waits)
	}
	return x
}

// turn is how a device uses the cores of its host.
func (s *stepSimulation) turn(d int) turn {
	return turn{s.cores[s.speeds.Rank(d)], float64(s.speeds.Devices[d].Cores)}
}

// late reports whether launches on a device wait for each input where they first read it.
func (s *stepSimulation) late(d int) bool {
	return s.speeds.OpByOp || s.speeds.Devices[d].LateInputs
}

// readings are the inputs of a launch of so many seconds, with the times at which m has brought them back; nil
// brings nothing. The next call overwrites them.
func (s *stepSimulation) readings(l *step.Launch, d int, seconds float64, m *mover) []reading {
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
		if first != nil && m != nil {
			m.readAfter(n, x.share*seconds)
		}
		s.inputs = append(s.inputs, x)
	}
	return s.inputs
}

// firstReads are, per input of a variant, the shares of its work before it reads the input.
func (s *stepSimulation) firstReads(v *segment.Variant, d int) []float64 {
	k := step.Run{Variant: v, Device: s.like[d]}
	first, known := s.first[k]
	if !known {
		first = firstReads(s.check, v, s.speeds.Devices[d])
		s.first[k] = first
	}
	return first
}

// arrival is the time from which a device has an instance. If another has it, it is
// copied once; between ranks, it is sent once.
func (s *stepSimulation) arrival(x *step.Need, d int) float64 {
	h := s.holders(x.Number)
	if h.none() {
		return 0 // a constant or an input, or a variable that was not written yet
	}
	if t, has := h.find(d); has {
		return t.since
	}
	bytes := x.Value.Meta.Bytes()
	from, near := h.nearest(d, s.speeds.Ranks)
	var start, end float64
	if near {
		start = max(from.since, s.link[d])
		wakes, takes := s.speeds.CopySeconds(0, from.device, d), s.speeds.CopySeconds(bytes, from.device, d)
		end = start + takes
		s.link[d] = end
		s.turn(d).cores.copy(start+wakes, takes-wakes)
	} else {
		start, end = s.send(from, d, bytes)
	}
	h.add(there{d, end})
	if s.keep && len(s.counts) <= FewRanks {
		hosted := !near || !speed.Direct(s.speeds.Devices[from.device], s.speeds.Devices[d])
		s.out.Copies = append(s.out.Copies, CopySpan{x.Value, from.device, d, bytes, hosted, start, end})
	}
	return end
}

// send is a message to the rank of a device.
func (s *stepSimulation) send(from there, d int, bytes int64) (start, end float64) {
	p, q := s.speeds.Ranks[from.device], s.speeds.Ranks[d]
	takes := s.speeds.Link.Seconds(bytes)
	start, end = s.sends[p].take(from.since, takes)
	_, arrives := s.gets[q].take(start, takes)
	end = max(end, arrives)
	s.counts[p].Sent += bytes
	s.counts[p].Messages++
	s.counts[q].Received += bytes
	return start, end + s.speeds.Link.Latency
}

// write makes a device the only one that has an instance, or one more that does.
func (s *stepSimulation) write(x *step.Need, d int, end float64, more bool) {
	if h := s.holders(x.Number); more {
		h.add(there{d, end})
	} else {
		h.only(there{d, end})
	}
}

// holders are those of an instance.
func (s *stepSimulation) holders(number int) *holders {
	if more := number + 1 - len(s.ready); more > 0 {
		s.ready = append(s.ready, make([]holders, more)...)
	}
	return &s.ready[number]
}

// time is the seconds of a launch, with the time until the next one can begin.
func (s *stepSimulation) time(l *step.Launch, d int) float64 {
	k := step.Run{Variant: l.Variant, Device: s.like[d]}
	t, known := s.times[k]
	if !known {
		t.seconds, t.measured = s.speeds.RunSeconds(s.check, l.Variant.Graph, d)
		s.times[k] = t
	}
	if t.measured {
		s.out.Measured++
	}
	return speed.Overhead + t.seconds
}

// finish fills in the shares, and counts times from the first launch.
func (s *stepSimulation) finish() {
	out := &s.out
	if out.Count == 0 {
		return
	}
	used, busy := 0, 0.0
	for _, b := range s.busy {
		if busy += b; b > 0 {
			used++
		}
	}
	out.Bubble = max(0, 1-busy/(out.Seconds*float64(max(1, used))))
	for d, b := range s.busy {
		if s.counts != nil {
			r := &s.counts[s.speeds.Ranks[d]]
			r.Working = max(r.Working, b)
			r.Waiting = max(0, out.Seconds-r.Working)
		}
	}
	out.Ranks = s.counts
	if len(out.Launches) == 0 {
		return
	}
	slices.SortStableFunc(out.Launches, func(x, y LaunchSpan) int { return x.Device - y.Device })
	first := out.Launches[0].Start
	for i := range out.Launches {
		first = min(first, out.Launches[i].Start)
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
}
