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

// reservation is a call of Reserve.
type reservation struct {
	floors []int64
	done   chan struct{} // closed once the floors are reserved, or err is set
	err    error         // why they never will be
}

// NewFloors makes Floors for devices with so many bytes each.
func NewFloors(limits []int64) *Floors {
	return &Floors{limits: limits, reserved: make([]int64, len(limits)), lost: make([]error, len(limits))}
}

// Reserve reserves bytes of each device; those of missing devices are 0. If it has
// to wait, it calls waits first, unless that is nil. It fails with the cause of ctx
// if that ends, and with the error given to Close or Lose. A floor beyond a device's limit
// would wait for ever.
func (x *Floors) Reserve(ctx context.Context, floors []int64, waits func()) error {
	r := &reservation{floors: floors, done: make(chan struct{})}
	x.mu.Lock()
	if err := cmp.Or(x.closed, x.lostFor(floors)); err != nil {
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
func (x *Floors) Release(floors []int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, floor := range floors {
		x.reserved[i] -= floor
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
		if r.err = x.lostFor(r.floors); r.err != nil {
			close(r.done)
		}
		return r.err != nil
	})
	x.admit() // those behind them may fit
}

// lostFor is the loss of a device that the floors need; nil if there is none.
func (x *Floors) lostFor(floors []int64) error {
	for i, floor := range floors {
		if floor > 0 && x.lost[i] != nil {
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
		if x.fits(r.floors, waited) {
			for i, floor := range r.floors {
				x.reserved[i] += floor
			}
			close(r.done)
			continue
		}
		for i, floor := range r.floors {
			waited[i] = waited[i] || floor > 0
		}
		kept = append(kept, r)
	}
	clear(x.waiting[len(kept):])
	x.waiting = kept
}

// fits reports whether floors can be reserved on devices that nobody waits for.
func (x *Floors) fits(floors []int64, waited []bool) bool {
	for i, floor := range floors {
		if floor > 0 && (waited[i] || x.reserved[i]+floor > x.limits[i]) {
			return false
		}
	}
	return true
}
