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
	seconds func(bytes int64, out bool) float64 // of a copy
	object  []int                               // by number of the instance: its object
	queued  [][]paging.Move                     // per launch of the device
	next    int                                 // its next launch
	used    []float64                           // per object: the end of the newest launch that uses it
	arrived []float64                           // per object: the end of its newest copy in
	in, out float64                             // the end of the newest copy
	stalled float64                             // the time for which launches have waited for copies
	stalls  []float64                           // stalled at the end of each step
}

// moversOf simulate the devices with less memory than a step with these traces would take;
// nil for others. The step has so many instances.
func moversOf(speeds *speed.Speeds, instances int, memory []forecast.Forecast, traces []*forecast.Trace) []*mover {
	list := make([]*mover, len(speeds.Devices))
	for i := range memory {
		if f := &memory[i]; f.Moved() > 0 {
			list[f.Device] = newMover(traces[f.Device], instances, paging.Moves(&traces[f.Device].Trace, f.Limit), func(bytes int64, out bool) float64 {
				return speeds.HostSeconds(f.Device, bytes, out)
			})
		}
	}
	return list
}

func newMover(t *forecast.Trace, instances int, moves []paging.Move, seconds func(bytes int64, out bool) float64) *mover {
	m := &mover{
		trace: t, seconds: seconds, object: make([]int, instances), queued: make([][]paging.Move, len(t.Launches)),
		used: make([]float64, len(t.Objects)), arrived: make([]float64, len(t.Objects)),
	}
	for o, number := range t.Numbers {
		m.object[number] = o
	}
	for _, x := range moves {
		m.queued[x.Launch] = append(m.queued[x.Launch], x)
	}
	return m
}

// begin queues the copies that come with the device's next launch, where the launch before
// ended at free. It gives the time from which the launch has its memory. The memory of what
// is copied in was in use until the launch before ended, or until its contents are copied
// out.
func (m *mover) begin(free float64, on *cores) (own float64) {
	room := free
	own = free
	for _, x := range m.queued[m.next] {
		if !x.Out {
			m.in = m.copy(x, m.in, room, on)
			m.arrived[x.Object] = m.in
			continue
		}
		m.out = m.copy(x, m.out, m.used[x.Object], on)
		if room = max(room, m.out); !x.Ahead {
			own = room
		}
	}
	m.next = (m.next + 1) % len(m.queued)
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
	return begin + takes
}

// arrival is the time from which an instance that was copied out is back; 0 if it was not.
func (m *mover) arrival(n *step.Need) float64 { return m.arrived[m.object[n.Number]] }

// use notes the end of a launch that uses an instance.
func (m *mover) use(n *step.Need, end float64) { m.used[m.object[n.Number]] = end }

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
