package residency

import "github.com/berth-ml/berth/engine/paging"

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
	u.order.mark(1)
	for d := range u.on {
		u.devs[d].unrank()
		u.on[d].uses, u.on[d].now = nil, 0
		if x != nil {
			u.on[d].uses = &x.devs[d]
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
