package residency

import (
	"slices"

	"github.com/berth-ml/berth/engine/paging"
)

// Launch is a task of a step, as Acquire will be called for it.
type Launch struct {
	Needs   []Need
	Scratch int64     // bytes
	Frees   []*Tensor // dropped once the task is queued
}

// Uses is the order in which the launches of a step use tensors. Make it with
// [Tenant.NewUses].
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
	policy  paging.Policy
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
	use := make(map[int]int, len(l.Needs)) // by object, its index in y.Uses
	for _, n := range l.Needs {
		o, known := at[n.Tensor]
		if !known {
			o = len(x.tensors)
			at[n.Tensor] = o
			x.tensors = append(x.tensors, n.Tensor)
			x.trace.Objects = append(x.trace.Objects, paging.Object{Name: n.Tensor.name, Bytes: n.Tensor.bytes})
		}
		i, again := use[o]
		if !again {
			i = len(y.Uses)
			use[o] = i
			y.Uses = append(y.Uses, paging.Use{Object: o})
		}
		v := &y.Uses[i]
		v.Read, v.Write = v.Read || n.Mode.reads(), v.Write || n.Mode.writes()
	}
	x.trace.Launches = append(x.trace.Launches, y)
	for _, t := range l.Frees {
		u.free(index, t)
	}
	return len(x.trace.Launches) - 1
}

// free ends a tensor's contents on all devices, with the last launch there so far.
func (u *Uses) free(index []map[*Tensor]int, t *Tensor) {
	for d := range u.devs {
		launches := u.devs[d].trace.Launches
		if o, known := index[d][t]; known {
			last := &launches[len(launches)-1]
			last.Frees = append(last.Frees, o)
		}
	}
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

// advance moves past an attempt's launch.
func (o *order) advance(launch int) {
	if launch >= 0 {
		o.next = (launch + 1) % len(o.uses.launches)
	}
}
