package forecast

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/speed"
	"github.com/berth-ml/berth/partition/step"
)

// Trace is how the launches of a step use the memory of one device: all that forecasts, and the
// simulation of copies, know of the step. Scratch is added once estimates are worth their time.
type Trace struct {
	paging.Trace
	names []string     // per launch
	work  []speed.Work // per launch
	// Per object: its instance and the number of that in the step, -1 if only another step
	// has it; and whether it is a variable or constant, which is there when the first step begins.
	Of      []step.Instance
	Numbers []int
	First   []bool
}

// tracer makes the traces of all devices. A device's trace has an object for each
// instance that is ever on it. A call of [TraceLaunches] owns it. It walks the launches three times: who
// uses an instance last decides who frees it, and who writes it decides where its contents come from.
type tracer struct {
	traces []*Trace
	known  []tracked // by number
	work   map[*segment.Variant]speed.Work
}

// tracked is an instance, and how each device that uses it does. Of many devices few use
// one instance, so the others have no entry.
type tracked struct {
	step.Instance
	on    []usedOn // by device
	alike bool     // the devices that write it write the same
}

// usedOn is how a device uses an instance.
type usedOn struct {
	device int
	object int  // in the device's trace; -1: not added yet
	last   int  // the last launch of the step that uses it there
	writes bool // a launch there writes it
	comes  bool // the first launch there reads it
}

// find is the place of a device's entry, or where it would be.
func (x *tracked) find(d int) (at int, there bool) {
	return slices.BinarySearchFunc(x.on, d, func(u usedOn, d int) int { return u.device - d })
}

// at is a device's entry, which must be there.
func (x *tracked) at(d int) *usedOn {
	at, _ := x.find(d)
	return &x.on[at]
}

// TraceLaunches makes the trace of each of so many devices, without the launches'
// scratch. The traces are incomplete if check stops.
func TraceLaunches(check *stop.Check, devices int, launches []step.Launch) []*Trace {
	t := &tracer{known: make([]tracked, step.Count(launches)), work: map[*segment.Variant]speed.Work{}}
	for range devices {
		t.traces = append(t.traces, &Trace{})
	}
	for i := range stop.Each(check, launches) {
		t.track(i, &launches[i])
	}
	if check.Err() != nil {
		return t.traces
	}
	t.addObjects(launches)
	for i := range stop.Each(check, launches) {
		t.addLaunch(i, &launches[i])
	}
	return t.traces
}

// AddScratch adds the launches' working memory to their traces. scratch is that of a
// launch in bytes.
func AddScratch(check *stop.Check, traces []*Trace, launches []step.Launch, scratch func(l *step.Launch) int64) {
	done := make([]int, len(traces))
	for i := range stop.Each(check, launches) {
		l := &launches[i]
		d := l.Device
		traces[d].Launches[done[d]].Scratch = scratch(l)
		done[d]++
	}
}

// track notes who uses the instances that launch i needs.
func (t *tracer) track(i int, l *step.Launch) {
	for k := range l.Needs {
		n := &l.Needs[k]
		x := &t.known[n.Number]
		x.Instance = n.Instance
		at, there := x.find(l.Device)
		if !there {
			x.on = slices.Insert(x.on, at, usedOn{device: l.Device, object: -1, comes: n.Mode != segment.Write})
		}
		x.alike = x.alike || l.Repeats() && n.Mode != segment.Read
		u := &x.on[at]
		u.last, u.writes = i, u.writes || n.Mode != segment.Read
	}
}

// writtenBeside reports whether another device than d writes it.
func (x *tracked) writtenBeside(d int) bool {
	return slices.ContainsFunc(x.on, func(u usedOn) bool { return u.writes && u.device != d })
}

// addObjects makes an object for each instance on each device that uses it. A
// device gets its contents from outside the step's launches there if it reads first
// what another device writes, or if it is an input.
func (t *tracer) addObjects(launches []step.Launch) {
	for i := range launches {
		d := launches[i].Device
		for k := range launches[i].Needs {
			number := launches[i].Needs[k].Number
			x := &t.known[number]
			u := x.at(d)
			if u.object >= 0 {
				continue
			}
			lasts := x.Value.Kind == graph.Variable || x.Value.PerMicrobatch
			comes := u.comes && x.writtenBeside(d) && !(x.alike && u.writes)
			tr := t.traces[d]
			u.object = len(tr.Objects)
			tr.Of, tr.First = append(tr.Of, x.Instance), append(tr.First, lasts)
			tr.Numbers = append(tr.Numbers, number)
			tr.Objects = append(tr.Objects, paging.Object{
				Name: x.Value.Name, Bytes: x.Value.Meta.Bytes(),
				Lasting: lasts && !comes, Fed: comes || x.Value.Kind == graph.Input && !lasts,
			})
		}
	}
}

// addLaunch appends launch i to its device's trace. A write makes copies on other
// devices stale: they are freed there, as are all copies of an instance that is
// not needed any more.
func (t *tracer) addLaunch(i int, l *step.Launch) {
	tr, d := t.traces[l.Device], l.Device
	x := paging.Launch{Uses: make([]paging.Use, 0, len(l.Needs))}
	for k := range l.Needs {
		u, mode := &t.known[l.Needs[k].Number], l.Needs[k].Mode
		x.Uses = append(x.Uses, paging.Use{Object: u.at(d).object, Read: mode != segment.Write, Write: mode != segment.Read})
		if mode != segment.Read && !l.Repeats() {
			t.free(u, i, append(l.Also[:len(l.Also):len(l.Also)], d))
		}
	}
	tr.names = append(tr.names, l.Name())
	tr.work = append(tr.work, t.workOf(l.Variant))
	tr.Launches = append(tr.Launches, x)
	for _, k := range l.Over {
		t.free(&t.known[l.Needs[k].Number], i, nil)
	}
}

// free ends the contents of an instance on the devices that do not use it after
// launch i, with the last launch there so far; not on the devices except.
func (t *tracer) free(x *tracked, i int, except []int) {
	for _, u := range x.on {
		tr := t.traces[u.device]
		if last := len(tr.Launches) - 1; u.object >= 0 && !slices.Contains(except, u.device) && last >= 0 && u.last <= i && !tr.Objects[u.object].Lasting {
			tr.Launches[last].Frees = append(tr.Launches[last].Frees, u.object)
		}
	}
}

// workOf is the work of a variant.
func (t *tracer) workOf(v *segment.Variant) speed.Work {
	w, known := t.work[v]
	if !known {
		w = speed.WorkOf(stop.When(nil), v.Graph.Nodes)
		t.work[v] = w
	}
	return w
}

// seconds is the rough time of a step in which so many bytes move for lack of memory.
func (t *Trace) seconds(moved int64, spec device.Spec) float64 {
	sum := speed.MovingSeconds(moved, spec)
	for _, w := range t.work {
		sum += speed.Overhead + w.Seconds(spec)
	}
	return sum
}

// floor is the launch with the largest lease, and the lease by usage.
func (t *Trace) floor() (launch int, by [device.NumUsages]int64) {
	most := int64(-1)
	for i := range t.Launches {
		if n := t.Lease(&t.Launches[i]); n > most {
			launch, most = i, n
		}
	}
	if most >= 0 {
		by[device.Scratch] = paging.Rounded(t.Launches[launch].Scratch)
		for _, u := range t.Launches[launch].Uses {
			by[t.Of[u.Object].Usage] += paging.Rounded(t.Objects[u.Object].Bytes)
		}
	}
	return launch, by
}

// peak is the bytes by usage when steps without a limit have the most. The first
// step has more than others, if a variable is here that another device writes: from
// then on it comes when it is read.
func (t *Trace) peak() (at [device.NumUsages]int64) {
	var now [device.NumUsages]int64
	here := make([]bool, len(t.Objects))
	add := func(o int) {
		if !here[o] {
			here[o] = true
			now[t.Of[o].Usage] += paging.Rounded(t.Objects[o].Bytes)
		}
	}
	for o, first := range t.First {
		if first {
			add(o)
		}
	}
	for i := range t.Launches {
		l := &t.Launches[i]
		for _, u := range l.Uses {
			add(u.Object)
		}
		now[device.Scratch] = paging.Rounded(l.Scratch)
		if nodes.Total(now) > nodes.Total(at) {
			at = now
		}
		for _, o := range l.Frees {
			if here[o] {
				here[o] = false
				now[t.Of[o].Usage] -= paging.Rounded(t.Objects[o].Bytes)
			}
		}
	}
	return at
}
