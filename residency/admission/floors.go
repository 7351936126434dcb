package admission

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Floors reserves memory of devices. While the memory that others have reserved leaves no room
// for one, it waits: of several that need memory of the same device, the first one
// goes first. Make it with NewFloors; Close ends all waiting. Its methods are safe
// for concurrent use.
type Floors struct {
	mu       sync.Mutex
	limits   []int64 // per device, in bytes
	reserved []int64 // per device, in bytes
	lost     []error // per device: why it has no memory any more; nil: it has
	held     []*Reservation
	waiting  []*Reservation
	closed   error
}

// Claim is the memory that a user needs.
type Claim struct {
	Floors []int64 // in bytes of each device; those of missing devices are 0
	Common *Common // is reserved with it, unless another user has; nil: there is none
	// Turns is whether the user releases the memory once others that take turns want it, and reserves it anew: see
	// [Reservation.Wanted].
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
	wanted atomic.Bool
}

// Wanted reports whether somebody waits for memory of r who takes turns, as its user does, and gets it once all who
// take turns have released theirs. For others r would be released in vain, or for as long as they stay.
func (r *Reservation) Wanted() bool { return r.wanted.Load() }

// at is the bytes of floors on a device.
func at(floors []int64, device int) int64 {
	if device >= len(floors) {
		return 0
	}
	return floors[device]
}

// needs is the bytes that r lacks on a device: what is common is there if others have reserved it.
func (r *Reservation) needs(device int) int64 {
	bytes := at(r.Floors, device)
	if r.Common != nil && r.Common.users == 0 {
		bytes += at(r.Common.floors, device)
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
	r := &Reservation{Claim: c, done: make(chan struct{})}
	x.mu.Lock()
	if err := cmp.Or(x.closed, x.lostFor(r)); err != nil {
		x.mu.Unlock()
		return nil, err
	}
	x.waiting = append(x.waiting, r)
	x.admit()
	mustWait := slices.Contains(x.waiting, r)
	x.mu.Unlock()
	if mustWait && waits != nil {
		waits()
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		x.giveUp(r, context.Cause(ctx))
	}
	if r.err != nil {
		return nil, r.err
	}
	return r, nil
}

// Reserved is the bytes of each device that are reserved, and the number of calls
// that wait.
func (x *Floors) Reserved() (bytes []int64, waiting int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.reserved), len(x.waiting)
}

// giveUp ends the waiting of r, unless it has ended meanwhile.
func (x *Floors) giveUp(r *Reservation, cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i := slices.Index(x.waiting, r); i >= 0 {
		x.waiting = slices.Delete(x.waiting, i, i+1)
		r.err = cause
		x.admit() // those behind it may fit
	}
}

// Release gives memory that is reserved to others.
func (x *Floors) Release(r *Reservation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held = slices.DeleteFunc(x.held, func(o *Reservation) bool { return o == r })
	if r.Common != nil {
		r.Common.users--
	}
	for i := range x.reserved {
		x.reserved[i] -= r.needs(i) // those of the common part with its last user
	}
	x.admit()
}

// want tells those that take turns, of all that have memory, whether it is wanted.
func (x *Floors) want() {
	for _, r := range x.held {
		r.wanted.Store(r.Turns && x.wants(r))
	}
}

// wants reports whether somebody waits for memory of r who would get it: see [Reservation.Wanted].
func (x *Floors) wants(r *Reservation) bool {
	waited := make([]bool, len(x.limits)) // as in admit
	for _, w := range x.waiting {
		if w.Turns && x.lacks(w, r) && x.fitsBeside(w, waited) {
			return true
		}
		w.mark(waited)
	}
	return false
}

// lacks reports whether w waits for memory that r has.
func (x *Floors) lacks(w, r *Reservation) bool {
	for i := range x.limits {
		has := at(r.Floors, i) > 0 || r.Common != nil && at(r.Common.floors, i) > 0
		if bytes := w.needs(i); has && bytes > 0 && x.reserved[i]+bytes > x.limits[i] {
			return true
		}
	}
	return false
}

// fitsBeside reports whether w fits beside those that take no turns, on devices that nobody waits for.
func (x *Floors) fitsBeside(w *Reservation, waited []bool) bool {
	var common []*Common // that stays
	for _, r := range x.held {
		if !r.Turns && r.Common != nil && !slices.Contains(common, r.Common) {
			common = append(common, r.Common)
		}
	}
	for i := range x.limits {
		bytes := at(w.Floors, i)
		if w.Common != nil && !slices.Contains(common, w.Common) {
			bytes += at(w.Common.floors, i)
		}
		if bytes == 0 {
			continue
		}
		for _, r := range x.held {
			if !r.Turns {
				bytes += at(r.Floors, i)
			}
		}
		for _, c := range common {
			bytes += at(c.floors, i)
		}
		if waited[i] || bytes > x.limits[i] {
			return false
		}
	}
	return true
}

// Lose makes the calls of Reserve that wait for memory of a device, and later ones,
// fail with err.
func (x *Floors) Lose(device int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost[device] = err
	x.waiting = slices.DeleteFunc(x.waiting, func(r *Reservation) bool {
		if r.err = x.lostFor(r); r.err != nil {
			close(r.done)
		}
		return r.err != nil
	})
	x.admit() // those behind them may fit
}

// lostFor is the loss of a device that r needs; nil if there is none.
func (x *Floors) lostFor(r *Reservation) error {
	for i := range x.lost {
		if x.lost[i] != nil && (at(r.Floors, i) > 0 || r.Common != nil && at(r.Common.floors, i) > 0) {
			return x.lost[i]
		}
	}
	return nil
}

// Close makes the calls of Reserve that wait, and later ones, fail with err.
func (x *Floors) Close(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = err
	for _, r := range x.waiting {
		r.err = err
		close(r.done)
	}
	x.waiting = nil
	x.want()
}

// admit reserves the floors that fit, unless an earlier call waits for memory of the
// same device.
func (x *Floors) admit() {
	waited := make([]bool, len(x.limits)) // per device: someone waits for its memory
	kept := x.waiting[:0]
	for _, r := range x.waiting {
		if x.fits(r, waited) {
			for i := range x.reserved {
				x.reserved[i] += r.needs(i)
			}
			if r.Common != nil {
				r.Common.users++
			}
			x.held = append(x.held, r)
			close(r.done)
			continue
		}
		r.mark(waited)
		kept = append(kept, r)
	}
	clear(x.waiting[len(kept):])
	x.waiting = kept
	x.want()
}

// mark marks the devices for whose memory r waits.
func (r *Reservation) mark(waited []bool) {
	for i := range waited {
		waited[i] = waited[i] || r.needs(i) > 0
	}
}

// fits reports whether what r needs can be reserved on devices that nobody waits for.
func (x *Floors) fits(r *Reservation, waited []bool) bool {
	for i := range x.limits {
		if bytes := r.needs(i); bytes > 0 && (waited[i] || x.reserved[i]+bytes > x.limits[i]) {
			return false
		}
	}
	return true
}
