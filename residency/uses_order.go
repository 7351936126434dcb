package residency

import "slices"

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
	tensors  [][]*Tensor // per device, the objects of its launches
}

// newUses lists the uses of tensors by launches, for each device.
func newUses(launches []Launch, devices int) *Uses {
	u := &Uses{launches: slices.Clone(launches), devs: make([]deviceUses, devices), tensors: make([][]*Tensor, devices)}
	index := make([]map[*Tensor]int, devices) // the number of a tensor's object
	for d := range index {
		index[d] = map[*Tensor]int{}
	}
	for _, l := range launches {
		u.local = append(u.local, u.add(index, l))
	}
	for d := range u.devs {
		u.devs[d].describe()
	}
	return u
}

// add appends a launch to those of its device, that of its first need, and
// returns its index there.
func (u *Uses) add(index []map[*Tensor]int, l Launch) int {
	if len(l.Needs) == 0 {
		return 0
	}
	d := l.Needs[0].Device
	x, at := &u.devs[d], index[d]
	x.launch(l.Scratch)
	for _, n := range l.Needs {
		o, known := at[n.Tensor]
		if !known {
			o = x.object(n.Tensor.name, n.Tensor.bytes)
			at[n.Tensor] = o
			u.tensors[d] = append(u.tensors[d], n.Tensor)
		}
		x.use(o, n.Mode.reads(), n.Mode.writes())
	}
	for _, t := range l.Frees {
		for d := range u.devs {
			if o, known := index[d][t]; known {
				u.devs[d].free(o)
			}
		}
	}
	return len(x.trace.Launches) - 1
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
		for i, t := range o.uses.tensors[d] {
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
