package residency

import (
	"slices"

	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/internal/prompt"
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
	tensors  [][]*Tensor // per device, the objects of its launches
}

// NewUses prepares the order of a step's launches for SetUses. It decides how
// to make room on each device, from the memory that it has.
func (u *Tenant) NewUses(launches []Launch) *Uses {
	x := newUses(launches, len(u.devs))
	for d := range x.devs {
		y := &x.devs[d]
		y.order = paging.NewOrder(&y.trace)
		if limit := u.devs[d].spec.MemoryBytes; limit > 0 && y.trace.Floor() <= limit {
			y.policy = paging.NewPolicy(&y.trace, limit)
		}
	}
	return x
}

// SetUses sets the order of uses to come. With it, eviction can choose the copy
// whose memory is free longest for the bytes that move, and tensors are fetched
// ahead of their use. The order repeats until it is set again; nil removes it.
// Acquire advances through it, and tasks that are not in it change nothing.
func (u *Tenant) SetUses(x *Uses) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.order.mark(0)
	u.order = order{uses: x}
	if x.moves() && u.beside == nil {
		u.beside = prompt.Beside()
	}
	u.order.mark(1)
	for d := range u.on {
		u.devs[d].unrank()
		u.on[d].place.leave()
		if x != nil {
			u.on[d].place.uses = &x.devs[d]
		}
	}
	launches := 0
	for _, o := range u.tenants {
		if o.order.uses != nil {
			launches += len(o.order.uses.launches)
		}
	}
	u.host.Keep(launches)
}

// moves reports whether tensors leave a device in a step, and come back.
func (x *Uses) moves() bool {
	return x != nil && slices.ContainsFunc(x.devs, func(d deviceUses) bool { return d.policy.Spare > 0 })
}

// newUses lists the uses of tensors by launches, for each device.
func newUses(launches []Launch, devices int) *Uses {
	u := &Uses{launches: slices.Clone(launches), devs: make([]deviceUses, devices), tensors: make([][]*Tensor, devices)}
	index := make([]map[*Tensor]int, devices) // per device: the number of a tensor's object
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
	// A tensor becomes an object of the device with its first use there.
	for _, n := range l.Needs {
		o, known := at[n.Tensor]
		if !known {
			o = x.object(n.Tensor.name, n.Tensor.bytes)
			at[n.Tensor] = o
			u.tensors[d] = append(u.tensors[d], n.Tensor)
		}
		x.use(o, n.Mode.reads(), n.Mode.writes())
	}
	// What the launch frees ends on all devices that have used it.
	for _, t := range l.Frees {
		for d := range u.devs {
			if o, known := index[d][t]; known {
				u.devs[d].free(o)
			}
		}
	}
	return len(x.trace.Launches) - 1
}

// order is how far a tenant has come in the order of uses that it announced. The tenant owns
// it. The order repeats.
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
			if t.base() == nil { // whose users have an order each
				t.copies[d].object = first * (i + 1)
			}
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

// deviceUses are a Uses's launches on one device, in the form that package paging reads. A
// tensor is an object there, by number. It does not change once it is made.
type deviceUses struct {
	trace  paging.Trace
	order  *paging.Order
	policy paging.Policy
	index  map[int]int // while it is made: by object, its index among the uses of the last launch
}

// object adds an object, and returns its number.
func (x *deviceUses) object(name string, bytes int64) int {
	x.trace.Objects = append(x.trace.Objects, paging.Object{Name: name, Bytes: bytes})
	return len(x.trace.Objects) - 1
}

// launch begins the next launch.
func (x *deviceUses) launch(scratch int64) {
	x.trace.Launches = append(x.trace.Launches, paging.Launch{Scratch: scratch})
	x.index = map[int]int{}
}

// last is the newest launch.
func (x *deviceUses) last() *paging.Launch { return &x.trace.Launches[len(x.trace.Launches)-1] }

// use adds a use to the last launch, or to the object's use there.
func (x *deviceUses) use(object int, read, write bool) {
	l := x.last()
	i, again := x.index[object]
	if !again {
		i = len(l.Uses)
		x.index[object] = i
		l.Uses = append(l.Uses, paging.Use{Object: object})
	}
	u := &l.Uses[i]
	u.Read, u.Write = u.Read || read, u.Write || write
}

// free ends an object's contents with the last launch.
func (x *deviceUses) free(object int) {
	l := x.last()
	l.Frees = append(l.Frees, object)
}

// describe ends the list of launches. It tells the objects that outlive the step, and those that come from
// elsewhere in every step: they are read before they are written.
func (x *deviceUses) describe() {
	x.index = nil
	// An object whose first use reads it is fed from elsewhere, unless it outlives the step.
	used, freed := make([]bool, len(x.trace.Objects)), make([]bool, len(x.trace.Objects))
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
	// One that no launch frees outlives the step.
	for i := range x.trace.Objects {
		if o := &x.trace.Objects[i]; !freed[i] {
			o.Lasting, o.Fed = true, false
		}
	}
}

// place is where a tenant is in its order of uses on one device: at the launch there that it
// acquired last. The tenancy owns it. It knows copies by number, devCopy.object.
type place struct {
	uses  *deviceUses // nil if no order is known
	now   int         // that launch
	steps int         // that have ended since the order is known
	turn  int         // counts the launches acquired; SetUses does not set it back
}

// known reports whether there is an order.
func (p *place) known() bool { return p.uses != nil }

// leave forgets the order.
func (p *place) leave() { p.uses, p.now, p.steps = nil, 0, 0 }

// reach makes a launch the present one. It reports false if that is neither the same as
// before nor the next one: then the distances of all uses change each by a number of its own.
func (p *place) reach(launch int) bool {
	before := p.now
	if p.now = launch; launch < before {
		p.steps++
	}
	if launch == (before+1)%len(p.uses.trace.Launches) && launch != before {
		p.turn++
		return true
	}
	return launch == before
}

// next counts the launches from the present one until a copy is used next, and reports
// whether that use reads it.
func (p *place) next(number int) (distance int, reads bool) {
	return p.uses.order.Next(number-1, p.now)
}

// soonest is next from the launch before: the present launch may still use the copy.
func (p *place) soonest(number int) (distance int) {
	distance, _ = p.uses.order.Next(number-1, p.now-1)
	return distance
}

// serves reports whether a copy to the host would serve many gaps between uses.
func (p *place) serves(number int) bool { return p.uses.order.Serves(number-1, p.now) }

// spare is the bytes to keep free on the device.
func (p *place) spare() int64 {
	if !p.known() {
		return 0
	}
	return p.uses.policy.Spare
}

// planned are the objects that the plan has leave with the present launch, and those that it has come back.
func (p *place) planned() (leaves, loads []int) {
	plan := &p.uses.policy.Plan
	if plan.Leaves == nil {
		return nil, nil
	}
	k := plan.Launch(p.now, p.steps, len(p.uses.trace.Launches))
	return plan.Leaves[k], plan.Loads[k]
}
