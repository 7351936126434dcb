package admission

import (
	"cmp"
	"context"
	"slices"
	"sync"
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
	waiting  []*reservation
	closed   error
}

// Common is memory that several users need together: it is reserved with the first of them, and
// released with the last. The [Floors] that it is given to guard it.
type Common struct {
	floors []int64 // per device, in bytes
	users  int     // that have reserved it
}

// NewCommon makes a Common of so many bytes of each device; those of missing devices are 0.
func NewCommon(floors []int64) *Common { return &Common{floors: floors} }

// reservation is a call of Reserve.
type reservation struct {
	floors []int64
	common *Common       // nil: there is none
	done   chan struct{} // closed once the floors are reserved, or err is set
	err    error         // why they never will be
}

// at is the bytes of floors on a device.
func at(floors []int64, device int) int64 {
	if device >= len(floors) {
		return 0
	}
	return floors[device]
}

// needs is the bytes that r lacks on a device: what is common is there if others have reserved it.
func (r *reservation) needs(device int) int64 {
	bytes := at(r.floors, device)
	if r.common != nil && r.common.users == 0 {
		bytes += at(r.common.floors, device)
	}
	return bytes
}

// NewFloors makes Floors for devices with so many bytes each.
func NewFloors(limits []int64) *Floors {
	return &Floors{limits: limits, reserved: make([]int64, len(limits)), lost: make([]error, len(limits))}
}

// Reserve reserves bytes of each device; those of missing devices are 0. So it does for what is
// common, unless another user has; nil: nothing is. If it has
// to wait, it calls waits first, unless that is nil. It fails with the cause of ctx
// if that ends, and with the error given to Close or Lose. A floor beyond a device's limit
// would wait for ever.
func (x *Floors) Reserve(ctx context.Context, floors []int64, common *Common, waits func()) error {
	r := &reservation{floors: floors, common: common, done: make(chan struct{})}
	x.mu.Lock()
	if err := cmp.Or(x.closed, x.lostFor(r)); err != nil {
		x.mu.Unlock()
		return err
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
	return r.err
}

// Reserved is the bytes of each device that are reserved, and the number of calls
// that wait.
func (x *Floors) Reserved() (bytes []int64, waiting int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.reserved), len(x.waiting)
}

// giveUp ends the waiting of r, unless it has ended meanwhile.
func (x *Floors) giveUp(r *reservation, cause error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i := slices.Index(x.waiting, r); i >= 0 {
		x.waiting = slices.Delete(x.waiting, i, i+1)
		r.err = cause
		x.admit() // those behind it may fit
	}
}

// Release undoes a Reserve of the same floors.
func (x *Floors) Release(floors []int64, common *Common) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if common != nil {
		common.users--
	}
	r := reservation{floors: floors, common: common}
	for i := range x.reserved {
		x.reserved[i] -= r.needs(i) // those of the common part with its last user
	}
	x.admit()
}

// Lose makes the calls of Reserve that wait for memory of a device, and later ones,
// fail with err.
func (x *Floors) Lose(device int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost[device] = err
	x.waiting = slices.DeleteFunc(x.waiting, func(r *reservation) bool {
		if r.err = x.lostFor(r); r.err != nil {
			close(r.done)
		}
		return r.err != nil
	})
	x.admit() // those behind them may fit
}

// lostFor is the loss of a device that r needs; nil if there is none.
func (x *Floors) lostFor(r *reservation) error {
	for i := range x.lost {
		if x.lost[i] != nil && (at(r.floors, i) > 0 || r.common != nil && at(r.common.floors, i) > 0) {
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
			if r.common != nil {
				r.common.users++
			}
			close(r.done)
			continue
		}
		for i := range waited {
			waited[i] = waited[i] || r.needs(i) > 0
		}
		kept = append(kept, r)
	}
	clear(x.waiting[len(kept):])
	x.waiting = kept
}

// fits reports whether what r needs can be reserved on devices that nobody waits for.
func (x *Floors) fits(r *reservation, waited []bool) bool {
	for i := range x.limits {
		if bytes := r.needs(i); bytes > 0 && (waited[i] || x.reserved[i]+bytes > x.limits[i]) {
			return false
		}
	}
	return true
}
