package residency

import (
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/paging"
)

// Never is the NextUse of a tensor that the known order does not use again.
const Never = math.MaxInt

// Launch is a task of a step, as Acquire will be called for it.
type Launch struct {
	Needs   []Need
	Scratch int64     // bytes
	Frees   []*Tensor // dropped once the task is queued
}

// Uses is the order in which the launches of a step use tensors. Make it with
// [Manager.NewUses].
type Uses struct {
	launches []Launch
	local    []int // per launch, its index among those of its device
	devs     []deviceUses
}

// deviceUses is the part of a device.
type deviceUses struct {
	trace   paging.Trace
	order   *paging.Order
	tensors []*Tensor // the objects of the trace
	ahead   int       // launches whose tensors are fetched before they are due
}

// NewUses prepares the order of a step's launches for SetUses. It decides how far
// ahead of their use tensors are fetched, from the memory that each device has.
func (m *Manager) NewUses(launches []Launch) *Uses {
	u := &Uses{launches: slices.Clone(launches), devs: make([]deviceUses, len(m.devs))}
	index := make([]map[*Tensor]int, len(m.devs))
	for d := range index {
		index[d] = map[*Tensor]int{}
	}
	for _, l := range launches {
		u.local = append(u.local, u.add(index, l))
	}
	for d := range u.devs {
		x := &u.devs[d]
		x.describe()
		x.order = paging.NewOrder(&x.trace)
		if limit := m.devs[d].spec.MemoryBytes; limit > 0 && x.trace.Floor() <= limit {
			x.ahead = paging.Ahead(&x.trace, limit)
		}
	}
	return u
}

// add appends a launch to the trace of its device, that of its first need, and
// returns its index there.
func (u *Uses) add(index []map[*Tensor]int, l Launch) int {
	if len(l.Needs) == 0 {
		return 0
	}
	d := l.Needs[0].Device
	x, at := &u.devs[d], index[d]
	y := paging.Launch{Scratch: l.Scratch}
	for _, n := range l.Needs {
		o, known := at[n.Tensor]
		if !known {
			o = len(x.tensors)
			at[n.Tensor] = o
			x.tensors = append(x.tensors, n.Tensor)
			x.trace.Objects = append(x.trace.Objects, paging.Object{Name: n.Tensor.name, Bytes: n.Tensor.bytes})
		}
		i := slices.IndexFunc(y.Uses, func(v paging.Use) bool { return v.Object == o })
		if i < 0 {
			i = len(y.Uses)
			y.Uses = append(y.Uses, paging.Use{Object: o})
		}
		v := &y.Uses[i]
		v.Read, v.Write = v.Read || n.Mode.reads(), v.Write || n.Mode.writes()
	}
	for _, t := range l.Frees {
		if o, known := at[t]; known {
			y.Frees = append(y.Frees, o)
		}
	}
	x.trace.Launches = append(x.trace.Launches, y)
	return len(x.trace.Launches) - 1
}

// describe tells the objects that outlive the step, and those that come from
// elsewhere in every step: they are read before they are written.
func (x *deviceUses) describe() {
	used, freed := make([]bool, len(x.tensors)), make([]bool, len(x.tensors))
	for i := range x.trace.Launches {
		l := &x.trace.Launches[i]
		for _, v := range l.Uses {
			if !used[v.Object] {
				x.trace.Objects[v.Object].Fed = v.Read
			}
			used[v.Object] = true
		}
		for _, o := range l.Frees {
			freed[o] = true
		}
	}
	for i := range x.trace.Objects {
		if o := &x.trace.Objects[i]; !freed[i] {
			o.Lasting, o.Fed = true, false
		}
	}
}

// order is the known order of uses. It repeats.
type order struct {
	uses *Uses // nil if none is known
	next int   // the launch to come
}

// SetUses sets the order of uses to come. With it, eviction can choose the copy
// whose memory is free longest for the bytes that move, and tensors are fetched
// ahead of their use. The order repeats until it is set again; nil removes it.
// Acquire advances through it, and tasks that are not in it change nothing.
func (m *Manager) SetUses(u *Uses) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order.mark(0)
	m.order = order{uses: u}
	m.order.mark(1)
	for d := range m.devs {
		m.devs[d].uses, m.devs[d].now = nil, 0
		if u != nil {
			m.devs[d].uses = &u.devs[d]
		}
	}
}

// mark numbers the copies that the order knows, from first on; 0 removes the
// numbers.
func (o *order) mark(first int) {
	if o.uses == nil {
		return
	}
	for d := range o.uses.devs {
		for i, t := range o.uses.devs[d].tensors {
			t.copies[d].object = first * (i + 1)
		}
	}
}

// find is the launch with these needs, the next one if possible; -1 if there is
// none.
func (o *order) find(needs []Need) int {
	if o.uses == nil {
		return -1
	}
	n := len(o.uses.launches)
	for k := range n {
		i := (o.next + k) % n
		if slices.Equal(o.uses.launches[i].Needs, needs) {
			return i
		}
	}
	return -1
}

// expect makes an attempt's launch the present one of its device.
func (a *attempt) expect() {
	o := &a.m.order
	a.launch = o.find(a.needs)
	if a.launch >= 0 && len(a.needs) > 0 {
		a.m.devs[a.needs[0].Device].now = o.uses.local[a.launch]
	}
}

// advance moves past an attempt's launch.
func (o *order) advance(launch int) {
	if launch >= 0 {
		o.next = (launch + 1) % len(o.uses.launches)
	}
}

// next counts the device's launches until t is used there, and reports whether
// that use reads it. A tensor that the order does not know is not used: the longer
// it was not, the later.
func (d *devState) next(t *Tensor, clock uint64) (distance int, reads bool) {
	c := d.copy(t)
	if c.object == 0 {
		return paging.Never + int(clock-c.used), true
	}
	return d.uses.order.Next(c.object-1, d.now)
}
