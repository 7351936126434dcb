package admission

import "slices"

// Line is the calls that wait, in the order in which they came. A call waits behind
// every earlier one with which it has a claim in common. So each is served after a
// bounded number of others, however many come later. C is the type of a claim. The
// caller's lock guards a line. Make it with NewLine.
type Line[C any] struct {
	overlap func(a, b *C) bool
	waiting []*Waiter[C]
	spare   []*Waiter[C] // for reuse
}

// Waiter is a call that waits.
type Waiter[C any] struct {
	claims []C
	turn   chan struct{} // has room for one
}

// Turn gets a value when it is time to try again.
func (w *Waiter[C]) Turn() <-chan struct{} { return w.turn }

// NewLine makes an empty line. overlap reports whether two claims exclude each
// other.
func NewLine[C any](overlap func(a, b *C) bool) *Line[C] { return &Line[C]{overlap: overlap} }

// Len counts the calls that wait.
func (x *Line[C]) Len() int { return len(x.waiting) }

// Join adds a call to the line: at its end, or at its front.
func (x *Line[C]) Join(claims []C, front bool) *Waiter[C] {
	var w *Waiter[C]
	if n := len(x.spare); n > 0 {
		w, x.spare = x.spare[n-1], x.spare[:n-1]
	} else {
		w = &Waiter[C]{turn: make(chan struct{}, 1)}
	}
	w.claims = claims
	if front {
		x.waiting = slices.Insert(x.waiting, 0, w)
	} else {
		x.waiting = append(x.waiting, w)
	}
	return w
}

// Leave takes a call out of the line, and calls those that waited behind it.
func (x *Line[C]) Leave(w *Waiter[C]) {
	i := slices.Index(x.waiting, w)
	x.waiting = slices.Delete(x.waiting, i, i+1)
	select { // it may have been called meanwhile
	case <-w.turn:
	default:
	}
	w.claims = nil
	x.spare = append(x.spare, w)
	x.Call()
}

// Call makes all that wait behind nobody try again.
func (x *Line[C]) Call() {
	for _, w := range x.waiting {
		if x.Behind(w, w.claims) {
			continue
		}
		select {
		case w.turn <- struct{}{}:
		default: // it was called before
		}
	}
}

// Behind reports whether a call with these claims must let another go first. w is
// nil for a call that is not in the line: it would be at the end.
func (x *Line[C]) Behind(w *Waiter[C], claims []C) bool {
	for _, earlier := range x.waiting {
		if earlier == w {
			return false
		}
		if x.exclude(earlier.claims, claims) {
			return true
		}
	}
	return false
}

// exclude reports whether claims of two calls overlap.
func (x *Line[C]) exclude(a, b []C) bool {
	for i := range a {
		for j := range b {
			if x.overlap(&a[i], &b[j]) {
				return true
			}
		}
	}
	return false
}
