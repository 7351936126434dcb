package residency

import (
	"math"
	"sort"
)

// Never is the NextUse of a tensor that the known order does not use again.
const Never = math.MaxInt

// Use says that a task uses a tensor on a device.
type Use struct {
	Tensor *Tensor
	Device int
}

// order is the known future order of uses. It repeats.
type order struct {
	uses []Use
	pos  int // of the next use
}

// set replaces the order and the positions that copies know of it.
func (o *order) set(uses []Use) {
	for _, u := range o.uses {
		c := &u.Tensor.copies[u.Device]
		c.uses = c.uses[:0]
	}
	*o = order{uses: append([]Use(nil), uses...)}
	for i, u := range o.uses {
		c := &u.Tensor.copies[u.Device]
		c.uses = append(c.uses, i)
	}
}

// next counts the uses until c is used; Never if it is not in the order.
func (o *order) next(c *devCopy) int {
	if len(c.uses) == 0 {
		return Never
	}
	if i := sort.SearchInts(c.uses, o.pos); i < len(c.uses) {
		return c.uses[i] - o.pos
	}
	return c.uses[0] + len(o.uses) - o.pos
}

// advance moves past the uses that were just acquired.
func (o *order) advance(wants []want) {
	last := -1
	for i := range wants {
		if n := o.next(wants[i].c); n != Never {
			last = max(last, n)
		}
	}
	if len(o.uses) > 0 {
		o.pos = (o.pos + last + 1) % len(o.uses)
	}
}
