package admission

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Floors reserves memory of devices. While the memory that others have reserved leaves no room
// for one, it waits: the package says in which order. Make it with NewFloors; Close ends all waiting. Its methods are safe
// for concurrent use.
type Floors struct {
	mu       sync.Mutex
	limits   []int64 // per device, in bytes
	reserved []int64 // per device, in bytes
	lost     []error // per device: why it has no memory any more; nil: it has
	held     []*Reservation
	line     []*Reservation // that are past the door, and wait
	door     []*Reservation
	closed   error
}

// Claim is the memory that a user needs.
type Claim struct {
	Floors []int64 // in bytes of each device; those of missing devices are 0
	Common *Common // is reserved with it, unless another user has; nil: there is none
	// Turns is whether the user takes turns: it calls [Floors.Yield] where [Floors.Due] says so.
	Turns bool
}

// Common is memory that several users need together: it is reserved with the first of them, and
// released with the last. The [Floors] that it is given to guard it.
type Common struct {
	floors []int64 // per device, in bytes
	users  int     // that have reserved it
}

// NewCommon makes a Common of so many bytes of each device; those of missing devices are 0.
func NewCommon(floors []int64) *Common { return &Common{floors: floors} }

// Reservation is memory that is reserved, or waited for. Reserve makes it.
type Reservation struct {
	Claim
	done   chan struct{} // closed once it is reserved, or err is set
	err    error         // why it never will be
	over   bool          // its user has had its turn
	wanted atomic.Bool
}

// Wanted reports whether one of the first in the line lacks memory of r, whose user takes turns. It takes no lock.
func (r *Reservation) Wanted() bool { return r.wanted.Load() }

// errReleased ends the waiting for what is released meanwhile.
var errReleased = errors.New("the memory is not needed any more")

// at is the bytes of floors on a device.
func at(floors []int64, device int) int64 {
	if device >= len(floors) {
		return 0
	}
	return floors[device]
}

// has reports whether r has memory of a device where it is reserved.
func (r *Reservation) has(device int) bool {
	return at(r.Floors, device) > 0 || r.Common != nil && at(r.Common.floors, device) > 0
}

// needs is the bytes that r lacks on a device: what is common is there if others have reserved it.
func (r *Reservation) needs(device int) int64 {
	bytes := at(r.Floors, device)
	if r.Common != nil && r.Common.users == 0 {
		bytes += at(r.Common.floors, device)
	}
	return bytes
}

// together is the bytes that reservations take of a device together: what is common counts once.
func together(device int, all ...*Reservation) (bytes int64) {
	for k, r := range all {
		bytes += at(r.Floors, device)
		if r.Common != nil && !slices.ContainsFunc(all[:k], func(o *Reservation) bool { return o.Common == r.Common }) {
			bytes += at(r.Common.floors, device)
		}
	}
	return bytes
}

// NewFloors makes Floors for devices with so many bytes each.
func NewFloors(limits []int64) *Floors {
	return &Floors{limits: limits, reserved: make([]int64, len(limits)), lost: make([]error, len(limits))}
}

// Reserve reserves the memory of a claim. If it has to wait, it calls waits first, unless that is nil. It fails with
// the cause of ctx if that ends, and with the error given to Close or Lose. A floor beyond a device's limit
// would wait for ever.
func (x *Floors) Reserve(ctx context.Context, c Claim, waits func()) (*Reservation, error) {
	r, err := x.Join(c)
	if err != nil {
		return nil, err
	}
	if waits != nil && r.Waits() {
		waits()
	}
	if err := x.Wait(ctx, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Join adds a claim to those that wait: Wait waits until it is reserved, which Release undoes. It fails as Reserve does.
func (x *Floors) Join(c Claim) (*Reservation, error) {
	r := &Reservation{Claim: c, done: make(chan struct{})}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := cmp.Or(x.closed, x.lostFor(r)); err != nil {
		return nil, err
	}
	x.door = append(x.door, r)
	x.admit()
	return r, nil
}

// Waits reports whether r waits. One goroutine asks that, and calls Wait and Yield.
func (r *Reservation) Waits() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Wait waits until r, which Join has made or Yield has given away, is reserved. It fails as Reserve does; r is then released.
func (x *Floors) Wait(ctx context.Context, r *Reservation) error {
	select {
	case <-r.done:
	case <-ctx.Done():
		x.giveUp(r, context.Cause(ctx))
	}
	return r.err
}

// Reserved is the bytes of each device that are reserved, and the number of calls
// that wait.
func (x *Floors) Reserved() (bytes []int64, waiting int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.reserved), len(x.line) + len(x.door)
}

// giveUp ends the waiting of r, unless it has ended meanwhile.
func (x *Floors) giveUp(r *Reservation, cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dismiss(func(o *Reservation) error {
		if o == r {
			return cause
		}
		return nil
	}) {
		x.admit() // others may fit
	}
}

// dismiss ends the waiting of all for whom why has an error.
func (x *Floors) dismiss(why func(*Reservation) error) (some bool) {
	leaves := func(r *Reservation) bool {
		if r.err = why(r); r.err != nil {
			some = true
			close(r.done)
		}
		return r.err != nil
	}
	x.line = slices.DeleteFunc(x.line, leaves)
	x.door = slices.DeleteFunc(x.door, leaves)
	return some
}

// Release gives memory that is reserved to others, or ends the waiting for it. A second call does nothing.
func (x *Floors) Release(r *Reservation) {
	x.giveUp(r, errReleased)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.drop(r) {
		x.admit()
	}
}

// drop takes the memory of r from it, if it has some.
func (x *Floors) drop(r *Reservation) bool {
	i := slices.Index(x.held, r)
	if i < 0 {
		return false
	}
	x.held = slices.Delete(x.held, i, i+1)
	r.wanted.Store(false)
	if r.Common != nil {
		r.Common.users--
	}
	for i := range x.reserved {
		x.reserved[i] -= r.needs(i) // those of the common part with its last user
	}
	return true
}

// Due tells that the user of r, which takes turns, has had its turn. It reports whether Yield is to be called:
// whether one of the first in the line gets memory of r once all give theirs away who have had their turn. So nobody gives
// memory away that would lie idle until the turn of another one is over. One who has had its turn may be in a long step still:
// then the memory is idle for that.
func (x *Floors) Due(r *Reservation) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.due(r)
}

func (x *Floors) due(r *Reservation) bool {
	if !r.Turns || !slices.Contains(x.held, r) || cmp.Or(x.closed, x.lostFor(r)) != nil {
		return false
	}
	r.over = true
	all := slices.DeleteFunc(slices.Clone(x.held), func(o *Reservation) bool { return o.over })
	return x.anyFirst(func(w *Reservation) bool {
		if !x.lacks(w, r) {
			return false
		}
		all := append(all, w)
		for i := range x.limits {
			if w.has(i) && together(i, all...) > x.limits[i] {
				return false
			}
		}
		return true
	})
}

// Yield gives the memory of r to others, and has r join the line, if Due still says so; else it does nothing. Wait waits until
// r is reserved again.
func (x *Floors) Yield(r *Reservation) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.due(r) {
		return false
	}
	x.drop(r)
	r.over, r.done = false, make(chan struct{})
	x.line = append(x.line, r)
	x.admit()
	return true
}

// Lose makes the calls of Reserve and Wait that wait for memory of a device, and later ones,
// fail with err.
func (x *Floors) Lose(device int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost[device] = err
	x.dismiss(x.lostFor)
	x.admit() // others may fit
}

// lostFor is the loss of a device that r needs; nil if there is none.
func (x *Floors) lostFor(r *Reservation) error {
	for i := range x.lost {
		if x.lost[i] != nil && r.has(i) {
			return x.lost[i]
		}
	}
	return nil
}

// Close makes the calls of Reserve and Wait that wait, and later ones, fail with err.
func (x *Floors) Close(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = err
	x.dismiss(func(*Reservation) error { return err })
	x.want()
}

// admit lets those through the door that may, and reserves what is first in the line and fits.
func (x *Floors) admit() {
	x.enter()
	waited := make([]bool, len(x.limits)) // per device: someone waits for its memory
	x.line = slices.DeleteFunc(x.line, func(r *Reservation) bool {
		if r.behind(waited) || !x.fits(r) {
			r.mark(waited)
			return false
		}
		for i := range x.reserved {
			x.reserved[i] += r.needs(i)
		}
		if r.Common != nil {
			r.Common.users++
		}
		x.held = append(x.held, r)
		close(r.done)
		return true
	})
	x.want()
}

// enter lets those through the door that may.
func (x *Floors) enter() {
	// Per device: someone waits at the door, and one who stays does.
	waited, stays := make([]bool, len(x.limits)), make([]bool, len(x.limits))
	x.door = slices.DeleteFunc(x.door, func(r *Reservation) bool {
		passed := waited
		if r.Turns {
			passed = stays
		}
		if x.passes(r, passed) {
			x.line = append(x.line, r)
			return true
		}
		r.mark(waited)
		if !r.Turns {
			r.mark(stays)
		}
		return false
	})
}

// passes reports whether r may go through the door: it fits, and needs nothing of the devices waited for.
func (x *Floors) passes(r *Reservation, waited []bool) bool {
	var stay, turns []*Reservation
	for _, o := range slices.Concat(x.held, x.line) {
		if o.Turns {
			turns = append(turns, o)
		} else {
			stay = append(stay, o)
		}
	}
	with := append(slices.Clip(stay), r)
	for i := range x.limits {
		bytes := together(i, with...)
		if bytes == together(i, stay...) {
			continue
		}
		if waited[i] || bytes > x.limits[i] {
			return false
		}
		if r.Turns {
			continue
		}
		for _, t := range turns {
			if together(i, append(slices.Clip(with), t)...) > x.limits[i] {
				return false
			}
		}
	}
	return true
}

// want tells all that have memory whether it is wanted.
func (x *Floors) want() {
	for _, r := range x.held {
		r.wanted.Store(r.Turns && x.anyFirst(func(w *Reservation) bool { return x.lacks(w, r) }))
	}
}

// anyFirst reports whether f is true for one of those in the line that wait behind nobody.
func (x *Floors) anyFirst(f func(w *Reservation) bool) bool {
	waited := make([]bool, len(x.limits)) // as in admit
	for _, w := range x.line {
		if !w.behind(waited) && f(w) {
			return true
		}
		w.mark(waited)
	}
	return false
}

// lacks reports whether w waits for memory that r has.
func (x *Floors) lacks(w, r *Reservation) bool {
	for i := range x.limits {
		if bytes := w.needs(i); r.has(i) && bytes > 0 && x.reserved[i]+bytes > x.limits[i] {
			return true
		}
	}
	return false
}

// mark marks the devices for whose memory r waits.
func (r *Reservation) mark(waited []bool) {
	for i := range waited {
		waited[i] = waited[i] || r.has(i)
	}
}

// behind reports whether r has to wait for memory of a device that others wait for. What is common may be there: it would
// stay for ever if its users came back one by one.
func (r *Reservation) behind(waited []bool) bool {
	for i := range waited {
		if waited[i] && r.has(i) {
			return true
		}
	}
	return false
}

// fits reports whether what r needs is free.
func (x *Floors) fits(r *Reservation) bool {
	for i := range x.limits {
		if bytes := r.needs(i); bytes > 0 && x.reserved[i]+bytes > x.limits[i] {
			return false
		}
	}
	return true
}
