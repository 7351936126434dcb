package simulate

import (
	"cmp"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/speed"
	"github.com/berth-ml/berth/partition/step"
)

// mover simulates the copies of a device for lack of memory. Copies in go one after the
// other, and copies out, too. The two kinds overlap each other and the launches. The simulation
// owns one for each device that lacks memory.
type mover struct {
	trace   *forecast.Trace
	limit   int64
	seconds func(bytes int64, out bool) float64 // of a copy
	object  []int                               // by number of the instance: its object
	order   *paging.Order
	course  paging.Course
	queued  [][]paging.Move // per launch of the device, in the steps of course
	next    int             // its next launch, there
	used    []float64       // per object: the end of the newest launch that uses it
	written []float64       // per object: the end of the newest launch that writes it
	arrived []float64       // per object: the end of its newest copy in
	in, out float64         // the end of the newest copy
	leaving []leaving       // memory that was given up and is still in use
	stalled float64         // the time for which launches have waited for copies
	stalls  []float64       // stalled at the end of each step
	copies  []span          // of all steps
	works   []span          // of all steps: launches, without their waits
	took    []float64       // per launch of a step: its time in the newest one
	early   map[use]float64 // of that time, what comes before the launch reads an object; none where it waits for all first
}

// use is an object in a launch.
type use struct{ launch, object int }

// leaving is memory that is in use until its contents are copied out.
type leaving struct {
	bytes int64
	until float64
}

// moversOf simulate the devices with less memory than a step with these traces would take;
// nil for others. The step has so many instances.
func moversOf(speeds *speed.Speeds, instances int, memory []forecast.Forecast, traces []*forecast.Trace) []*mover {
	list := make([]*mover, len(speeds.Devices))
	for i := range memory {
		if f := &memory[i]; f.Moved() > 0 {
			list[f.Device] = newMover(traces[f.Device], f.Limit, instances, func(bytes int64, out bool) float64 {
				return speeds.HostSeconds(f.Device, bytes, out)
			})
		}
	}
	return list
}

func newMover(t *forecast.Trace, limit int64, instances int, seconds func(bytes int64, out bool) float64) *mover {
	m := &mover{
		trace: t, limit: limit, seconds: seconds, object: make([]int, instances), order: paging.NewOrder(&t.Trace), course: paging.CourseOf(&t.Trace, limit),
		took: make([]float64, len(t.Launches)), early: map[use]float64{},
		used: make([]float64, len(t.Objects)), written: make([]float64, len(t.Objects)), arrived: make([]float64, len(t.Objects)),
	}
	for o, number := range t.Numbers {
		if number >= 0 {
			m.object[number] = o
		}
	}
	m.queued = make([][]paging.Move, len(m.course.Used))
	for _, x := range m.course.Moves {
		m.queued[x.Launch] = append(m.queued[x.Launch], x)
	}
	return m
}

// begin queues the copies that come with the device's next launch, where the launch before
// ended at free. It gives the time from which the launch has its memory. A copy out begins
// once its contents are written. What it leaves is in use until it and all launches before
// have ended. A copy in begins as soon as there is room.
func (m *mover) begin(free float64, on *cores) (own float64) {
	m.leaving = slices.DeleteFunc(m.leaving, func(x leaving) bool { return x.until <= free })
	for _, x := range m.queued[m.next] {
		if x.Out {
			bytes := m.trace.Objects[x.Object].Bytes
			m.out = m.copy(x, m.out, m.written[x.Object], on)
			m.leaving = append(m.leaving, leaving{paging.Rounded(bytes), max(m.out, m.used[x.Object])})
		}
	}
	used := m.course.Used[m.next]
	own = m.room(used, free)
	for _, x := range m.queued[m.next] {
		if x.Out {
			continue
		}
		from := own
		if x.Ahead {
			used += paging.Rounded(m.trace.Objects[x.Object].Bytes)
			from = m.room(used, free)
		}
		m.in = m.copy(x, m.in, from, on)
		m.arrived[x.Object] = m.in
	}
	return own
}

// copy is the end of a copy that can begin at ready, on a stream whose newest copy ended at free. Only a stream that has come
// to rest must wake up first.
func (m *mover) copy(x paging.Move, free, ready float64, on *cores) (end float64) {
	wakes := m.seconds(0, x.Out)
	takes := m.seconds(m.trace.Objects[x.Object].Bytes, x.Out) - wakes
	begin := free + min(wakes, speed.Overhead)
	if ready > free {
		begin = ready + wakes
	}
	on.copy(begin, takes)
	m.copies = append(m.copies, span{max(free, ready), begin + takes})
	return begin + takes
}

// room is the time from which so many bytes fit beside those that are leaving, no sooner than from.
func (m *mover) room(bytes int64, from float64) float64 {
	for _, x := range m.leaving {
		bytes += x.bytes
	}
	for _, x := range m.leaving { // in the order in which they are copied
		if bytes <= m.limit {
			break
		}
		from, bytes = max(from, x.until), bytes-x.bytes
	}
	return from
}

// ran ends the device's next launch, which ran from start to end and took so long without its waits.
func (m *mover) ran(start, end float64, waits []Wait) {
	took := &m.took[m.next%len(m.took)]
	*took = end - start
	for _, w := range waits {
		m.works = append(m.works, span{start, w.Start})
		start = w.End
		*took -= w.End - w.Start
	}
	m.works = append(m.works, span{start, end})
	m.next = (m.next + 1) % len(m.queued)
}

// arrival is the time from which an instance that was copied out is back; 0 if it was not.
func (m *mover) arrival(n *step.Need) float64 { return m.arrived[m.object[n.Number]] }

// readAfter notes that the device's next launch first reads an instance after so many seconds.
func (m *mover) readAfter(n *step.Need, seconds float64) {
	m.early[use{m.next % len(m.took), m.object[n.Number]}] = seconds
}

// ended notes the end of a launch that uses an instance.
func (m *mover) ended(n *step.Need, end float64) {
	o := m.object[n.Number]
	if m.used[o] = end; n.Mode != segment.Read {
		m.written[o] = end
	}
}

// moving is about the copies of a step, in the mean of the course's steps.
func (m *mover) moving() Moving {
	all, hidden := 0.0, 0.0
	for _, c := range m.copies {
		all += c.end - c.start
		i, _ := slices.BinarySearchFunc(m.works, c.start, func(w span, at float64) int { return cmp.Compare(w.end, at) })
		for ; i < len(m.works) && m.works[i].start < c.end; i++ {
			hidden += max(0, min(c.end, m.works[i].end)-max(c.start, m.works[i].start))
		}
	}
	x := Moving{Waits: meanStep(m.stalls)}
	if x.Copies, x.Most = m.most(); all > 0 {
		x.Hidden = hidden / all * x.Copies
	}
	return x
}

// most is the time of a step's copies, and the most of it for which launches can work meanwhile.
func (m *mover) most() (copies, hidden float64) {
	turns, works, sums := float64(len(m.queued)/len(m.took)), 0.0, [2]float64{} // of copies in, and out
	for _, took := range m.took {
		works += took * turns
	}
	for i, during := range m.course.During(&m.trace.Trace, m.limit) {
		x, beside := m.course.Moves[i], 0.0
		for _, k := range during {
			beside += m.took[k%len(m.took)]
		}
		way := 0
		if x.Out {
			way = 1
		} else {
			distance, _ := m.order.Next(x.Object, x.Launch%len(m.took)-1)
			beside += m.early[use{(x.Launch + distance - 1) % len(m.took), x.Object}]
		}
		takes := m.seconds(m.trace.Objects[x.Object].Bytes, x.Out)
		copies += takes
		sums[way] += min(beside, takes)
	}
	return copies / turns, (min(sums[0], works) + min(sums[1], works)) / turns
}

// reading is an input of a launch: the share of its work that comes before the first read,
// and the time from which the input is there.
type reading struct{ share, there float64 }

// course is the start and the end of a launch that has its memory from free on. With late
// inputs it waits for each where it first reads it, otherwise for all before it starts. It appends its waits to list.
func course(free, seconds float64, inputs []reading, late bool, on turn, list []Wait) (start, end float64, waits []Wait) {
	start = free
	if !late {
		for _, x := range inputs {
			start = max(start, x.there)
		}
		return start, on.run(start, seconds), list
	}
	slices.SortFunc(inputs, func(x, y reading) int { return cmp.Compare(x.share, y.share) })
	at, done := start, 0.0
	for _, x := range inputs {
		if x.there <= at {
			continue
		}
		if work := x.share*seconds - done; work > 0 {
			at, done = on.run(at, work), x.share*seconds
		}
		if x.there > at {
			list = append(list, Wait{at, x.there})
			at = x.there
		}
	}
	if work := seconds - done; work > 0 {
		at = on.run(at, work)
	}
	return start, at, list
}

// firstReads are, per input of a variant, the shares of its work before it reads the input.
// Before it overwrites an input in place, it waits for all of them.
func firstReads(check *stop.Check, v *segment.Variant, spec device.Spec) []float64 {
	g := v.Graph
	first, input := slices.Repeat([]float64{1}, len(g.Inputs)), graph.NewTable[int](g) // 1 + the input's index
	for j, x := range g.Inputs {
		*input.At(x) = j + 1
	}
	inPlace := map[*graph.Value]bool{}
	for k, j := range v.Alias {
		inPlace[g.Outputs[k]] = j >= 0
	}
	whole := speed.WorkOf(check, g.Nodes).Seconds(spec)
	sum := 0.0
	for i, n := range stop.Each(check, g.Nodes) {
		share := 1.0
		if whole > 0 {
			share = sum / whole
		}
		for _, x := range n.In {
			if j := *input.At(x); j > 0 && fuse.IsView(n) {
				*input.At(n.Out[0]) = j
			} else if j > 0 {
				first[j-1] = min(first[j-1], share)
			}
		}
		if slices.ContainsFunc(n.Out, func(x *graph.Value) bool { return inPlace[x] }) {
			for j := range first {
				first[j] = min(first[j], share)
			}
			break // no later share is less
		}
		sum += speed.WorkOf(check, g.Nodes[i:i+1]).Seconds(spec)
	}
	return first
}
