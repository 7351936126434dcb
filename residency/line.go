package residency

import "slices"

// line is the calls that wait for leases to end, in the order in which they came.
// A call waits behind every earlier one that wants the same tensor, or memory of
// the same device. So each is served after a bounded number of others, however
// many come later. The manager's lock guards it.
type line struct {
	waiting []*waiter
	spare   []*waiter // for reuse
}

// waiter is a call that waits.
type waiter struct {
	needs []Need
	turn  chan struct{} // has room for one
}

// anywhere is the device of a need that takes no device's memory.
const anywhere = -1

// join adds a call to the line: at its end, or at its front.
func (x *line) join(needs []Need, front bool) *waiter {
	var w *waiter
	if n := len(x.spare); n > 0 {
		w, x.spare = x.spare[n-1], x.spare[:n-1]
	} else {
		w = &waiter{turn: make(chan struct{}, 1)}
	}
	w.needs = needs
	if front {
		x.waiting = slices.Insert(x.waiting, 0, w)
	} else {
		x.waiting = append(x.waiting, w)
	}
	return w
}

// leave takes a call out of the line, and calls those that waited behind it.
func (x *line) leave(w *waiter) {
	i := slices.Index(x.waiting, w)
	x.waiting = slices.Delete(x.waiting, i, i+1)
	select { // it may have been called meanwhile
	case <-w.turn:
	default:
	}
	w.needs = nil
	x.spare = append(x.spare, w)
	x.call()
}

// call makes all that wait behind nobody try again.
func (x *line) call() {
	for _, w := range x.waiting {
		if x.behind(w, w.needs) {
			continue
		}
		select {
		case w.turn <- struct{}{}:
		default: // it was called before
		}
	}
}

// behind reports whether a call with these needs must let another go first. w is
// nil for a call that is not in the line: it would be at the end.
func (x *line) behind(w *waiter, needs []Need) bool {
	for _, earlier := range x.waiting {
		if earlier == w {
			return false
		}
		if overlap(earlier.needs, needs) {
			return true
		}
	}
	return false
}

// overlap reports whether two lists of needs have a device or a tensor in common.
func overlap(a, b []Need) bool {
	for i := range a {
		for j := range b {
			if a[i].Tensor == b[j].Tensor || a[i].Device == b[j].Device && a[i].Device != anywhere {
				return true
			}
		}
	}
	return false
}
