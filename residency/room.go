package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// makeRoomOn makes room within a device's budget for the attempt's missing
// bytes. In this order, it takes pooled buffers even if copies must then wait
// for old uses, deletes the pool, evicts copies, and waits for deleted memory.
func (a *attempt) makeRoomOn(d *devState) (pause, error) {
	d.sweep()
	wants := a.m.scratch.wants
	for i := range wants {
		if w := &wants[i]; w.d == d && w.c.buf == nil && d.take(w.t, nil, true) {
			d.missing -= w.t.bytes
		}
	}
	if d.missing == 0 {
		return pause{}, nil
	}
	if a.m.lockedBytes(d)+d.missing > d.budget {
		return a.stuck(d, nil)
	}
	d.shrink(d.missing, false)
	for d.used+d.missing > d.budget {
		if ok, err := a.m.evict(d); err != nil {
			return pause{}, err
		} else if !ok {
			panic("BUG: nothing to evict on " + d.id + " though not all is leased")
		}
	}
	if d.fits(d.missing) {
		return pause{}, nil
	}
	return pause{kind: forEvent, event: d.oldest()}, nil
}

// allocateOn gets t a buffer on a device. When the device itself is out of
// memory, it takes a pooled buffer, deletes the pool, waits for deleted memory,
// and evicts copies, in this order.
func (a *attempt) allocateOn(d *devState, t *Tensor) (pause, error) {
	for {
		err := d.allocate(t)
		if err == nil {
			return pause{}, nil
		}
		if !errors.Is(err, device.ErrOutOfMemory) {
			return pause{}, fmt.Errorf("%s on %s: %w", t.name, d.id, err)
		}
		if d.take(t, nil, true) {
			return pause{}, nil
		}
		if d.drain(true) || d.drain(false) {
			continue
		}
		if n := len(d.deleted); n > 0 {
			if d.sweep(); len(d.deleted) == n {
				return pause{kind: forEvent, event: d.oldest()}, nil
			}
			continue // some of it was freed, maybe after the device looked
		}
		if ok, e := a.m.evict(d); e != nil {
			return pause{}, e
		} else if !ok {
			return a.stuck(d, err)
		}
	}
}

// lockedBytes counts the bytes on a device that are leased or that this attempt
// wants.
func (m *Manager) lockedBytes(d *devState) (bytes int64) {
	for _, t := range d.residents {
		if m.locked(d.copy(t)) {
			bytes += t.bytes
		}
	}
	return bytes
}

// stuck answers when leases leave no room on a device. It pauses if another
// stream has a lease there. Otherwise it fails: the stream's own leases end only
// after this call. cause is the device's error, nil if the budget is the limit.
func (a *attempt) stuck(d *devState, cause error) (pause, error) {
	m := a.m
	for _, l := range m.leases {
		if l.stream == a.s {
			continue
		}
		for _, n := range l.needs {
			if n.Device == d.index {
				return pause{kind: forRelease}, nil
			}
		}
	}
	if cause == nil {
		cause = fmt.Errorf("budget %d bytes", d.budget)
	}
	big := a.largest(d)
	return pause{}, fmt.Errorf("%w: %s needs %d bytes more, and %d bytes are leased or needed at once (%w); "+
		"the largest tensor is %v with %d bytes: raise the budget, use smaller microbatches or more devices",
		ErrBudget, d.id, d.missing, m.lockedBytes(d), cause, big, big.bytes)
}

// largest is the largest tensor wanted on a device.
func (a *attempt) largest(d *devState) (big *Tensor) {
	wants := a.m.scratch.wants
	for i := range wants {
		if w := &wants[i]; w.d == d && (big == nil || w.t.bytes > big.bytes) {
			big = w.t
		}
	}
	return big
}

// tryRoom gets t an unused buffer without evicting anything. It reports false if
// there is no memory.
func (d *devState) tryRoom(t *Tensor) (bool, error) {
	if d.take(t, nil, false) {
		return true, nil
	}
	err := d.allocate(t)
	for errors.Is(err, device.ErrOutOfMemory) && d.drain(true) {
		err = d.allocate(t)
	}
	if errors.Is(err, device.ErrOutOfMemory) {
		return false, nil
	}
	return err == nil, err
}

// attempt is one call of Acquire. It is tried again after each pause; copies and
// buffers that it got by then are kept.
type attempt struct {
	m     *Manager
	s     device.Stream
	queue device.Queue // of s
	needs []Need
	call  uint64 // the manager's clock
}
