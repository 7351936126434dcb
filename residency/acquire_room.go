package residency

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// makeRoom makes room on each device for all that the attempt is missing there.
func (a *attempt) makeRoom() error {
	for _, i := range a.tenant.used {
		a.m.devs[i].missing = 0
	}
	for i := range a.wants {
		if w := &a.wants[i]; !w.t.current(w.c) {
			w.d.missing += w.d.takes(w.t.bytes)
		}
	}
	if a.scratch > 0 && len(a.needs) > 0 {
		d := &a.m.devs[a.needs[0].Device]
		d.missing += d.takes(a.scratch)
	}
	for _, i := range a.tenant.used {
		d := &a.m.devs[i]
		if d.missing == 0 {
			continue
		}
		ok, err := a.m.makeRoom(d, d.missing+a.spare(d), 0)
		if err == nil && !ok {
			_, err = a.m.makeRoom(d, d.missing, 0) // if that is too little, full answers
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spare is the bytes that the known order keeps free on a device.
func (a *attempt) spare(d *devState) int64 {
	if x := a.tenant.on[d.index].uses; x != nil {
		return x.policy.Spare
	}
	return 0
}

// alloc takes memory on a device for work in stream s. It first moves copies
// together there if enough is free, but in pieces: asking in vain would make an
// error each time.
func (a *attempt) alloc(d *devState, s device.Stream, meta shape.Meta, u device.Usage) (device.Buffer, error) {
	if need := d.takes(meta.Bytes()); d.freeBytes() >= need {
		if err := a.m.scratch.compaction.compact(d, need, a.s, a.lease); err != nil {
			return nil, err
		}
	}
	return s.Alloc(meta, u)
}

// take is alloc that evicts one copy after the other while there is no room. It
// fails with the device's error when nothing is left to evict, when evicting all
// would not be enough, or when leases of others keep enough free memory in pieces:
// these end soon.
func (a *attempt) take(d *devState, s device.Stream, meta shape.Meta, u device.Usage) (device.Buffer, error) {
	for {
		b, err := a.alloc(d, s, meta, u)
		if err == nil || !errors.Is(err, device.ErrOutOfMemory) || a.sizes(d).exceed(d) {
			return b, err
		}
		if d.freeBytes() >= d.takes(meta.Bytes()) && a.othersLease(d) {
			return nil, err
		}
		if ok, e := a.m.evictOne(d); e != nil || !ok {
			return nil, cmp.Or(e, err)
		}
	}
}

// full answers when a device has no room for the attempt, whatever is evicted:
//   - while another stream has a lease there, it pauses until that ends;
//   - if only the pieces are too small, it gives up all that the attempt has got
//     there: from an empty device, the attempt gets one piece after the other;
//   - otherwise it fails, since the stream's own leases end only after this call. The
//     device's error says what to do.
func (a *attempt) full(d *devState, cause error) (pause, error) {
	if a.othersLease(d) {
		return pause{kind: forTurn}, nil
	}
	z := a.sizes(d)
	if !a.cleared && !z.exceed(d) {
		a.cleared = true
		return pause{kind: again}, a.clear(d)
	}
	return pause{}, fmt.Errorf("%w: %s: the task's tensors and scratch take %s, and %s are leased; the largest tensor is %v with %s: %w",
		ErrBudget, d.id, units.Bytes(z.wanted), units.Bytes(z.leased), z.largest, units.Bytes(z.largest.bytes), cause)
}

// othersLease reports whether another stream has a lease on a device.
func (a *attempt) othersLease(d *devState) bool {
	return slices.ContainsFunc(a.m.leases, func(l *Lease) bool { return l.stream != a.s && l.uses(d.index) })
}

// clear evicts everything from a device that is not leased, also what the attempt
// wants.
func (a *attempt) clear(d *devState) error {
	a.undo()
	for {
		if ok, err := a.m.evictOne(d); err != nil || !ok {
			return err
		}
	}
}

// sizes is what must be on a device at once for an attempt to succeed.
type sizes struct {
	wanted  int64 // bytes of the attempt's tensors and scratch
	leased  int64 // bytes of other tensors that are leased
	largest *Tensor
}

// sizes sums up an attempt, and the leases of others.
func (a *attempt) sizes(d *devState) sizes {
	z := sizes{leased: d.leased}
	for i := range a.wants {
		w := &a.wants[i]
		if w.d != d {
			continue
		}
		z.wanted += w.t.bytes
		if w.c.leased > 0 {
			z.leased -= w.t.bytes
		}
		if z.largest == nil || w.t.bytes > z.largest.bytes {
			z.largest = w.t
		}
	}
	if &a.m.devs[a.needs[0].Device] == d {
		z.wanted += a.scratch
	}
	return z
}

// exceed reports whether that is more than the device has, alignment not counted.
func (z sizes) exceed(d *devState) bool { return z.wanted+z.leased > d.spec.MemoryBytes }
