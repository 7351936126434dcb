package simulate

import "slices"

// there is a device that has an instance, and since when.
type there struct {
	device int
	since  float64
}

// holders are the devices that have an instance. Of many devices, most instances are on one alone. The zero value is none.
type holders struct {
	first  there // it has written it; since is at least a launch's time, so 0 means that there is none
	others *[]there
}

func (h *holders) none() bool { return h.first.since == 0 }

// only makes a device the only one.
func (h *holders) only(t there) {
	if h.first = t; h.others != nil {
		*h.others = (*h.others)[:0]
	}
}

// search is the place of a device among the others, or where it would be.
func (h *holders) search(d int) (at int, has bool) {
	return slices.BinarySearchFunc(*h.others, d, func(t there, d int) int { return t.device - d })
}

// find finds a device.
func (h *holders) find(d int) (t there, has bool) {
	if h.first.device == d && !h.none() {
		return h.first, true
	}
	if h.others == nil {
		return t, false
	}
	at, has := h.search(d)
	if has {
		t = (*h.others)[at]
	}
	return t, has
}

// add adds a device, or one that has the contents again.
func (h *holders) add(t there) {
	switch {
	case h.none() || h.first.device == t.device:
		h.first = t
		return
	case h.others == nil:
		h.others = new([]there)
	}
	if at, has := h.search(t.device); has {
		(*h.others)[at] = t
	} else {
		*h.others = slices.Insert(*h.others, at, t)
	}
}

// nearest is the device that a copy to d comes from: one of the same rank, or else the one that has written the contents, which
// is of another rank.
func (h *holders) nearest(d int, ranks []int) (from there, near bool) {
	from = h.first
	if ranks == nil {
		if h.others != nil && len(*h.others) > 0 && (*h.others)[0].device < from.device {
			from = (*h.others)[0]
		}
		return from, true
	}
	if ranks[from.device] == ranks[d] {
		return from, true
	}
	if h.others != nil {
		at, _ := h.search(d)
		for _, i := range []int{at, at - 1} {
			if i >= 0 && i < len(*h.others) && ranks[(*h.others)[i].device] == ranks[d] {
				return (*h.others)[i], true
			}
		}
	}
	return from, false
}
