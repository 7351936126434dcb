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
	// Sum up, for each device, the wants that have no memory there, and the scratch.
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
	// Evict for these sums, and for the bytes that the order of uses keeps free, if that can be.
	for _, i := range a.tenant.used {
		d := &a.m.devs[i]
		if d.missing == 0 {
			continue
		}
		ok, err := a.m.makeRoom(d, d.missing+a.tenant.on[i].place.spare(), 0)
		if err == nil && !ok {
			_, err = a.m.makeRoom(d, d.missing, 0) // if that is too little, full answers
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// supply gives every want memory, and the contents that it reads. A copy that is
// not current has no buffer yet: it was freed when it became stale.
func (a *attempt) supply() (pause, error) {
	for i := range a.wants {
		if w := &a.wants[i]; w.mode.reads() && w.t.truth == nowhere {
			return pause{}, fmt.Errorf("%s is needed on %s for %v: %w: fill, feed or write it first", w.t.name, w.d.id, w.mode, ErrUndefined)
		}
		if err := a.wants[i].t.lost(); err != nil && a.wants[i].mode.reads() {
			return pause{}, err
		}
	}
	for i := range a.wants {
		w := &a.wants[i]
		a.forget(w.t)
		if w.t.current(w.c) {
			continue
		}
		if p, err := a.give(w); err != nil || p.kind != none {
			return p, err
		}
	}
	return pause{}, nil
}

// forget frees the copies of a tensor whose contents did not arrive, except for the
// truth: they are then brought again. What this call has brought is not tried
// twice.
func (a *attempt) forget(t *Tensor) {
	for _, i := range t.tenant.used {
		if c := &t.copies[i]; i != t.truth && c.leased == 0 && c.brought != a.call && c.failure() != nil {
			a.m.devs[i].free(t, "failed")
		}
	}
	a.m.forgetHost(t)
}

// give gives a want memory, and the contents that it reads. The memory is taken
// for the stream that writes it first: the task's own, or a copy stream. It
// pauses if a store must be read first.
func (a *attempt) give(w *want) (pause, error) {
	m, s := a.m, a.s
	if w.mode.reads() {
		if m.mustStream(w.t, w.d) {
			return pause{kind: forStore, t: w.t, d: w.d.index}, nil
		}
		var err error
		if s, err = m.copier(w.t, w.d); err != nil {
			return pause{}, err
		}
	}
	b, err := a.take(w.d, s, w.t.meta, w.t.usage)
	if errors.Is(err, device.ErrOutOfMemory) {
		return a.full(w.d, err)
	}
	if err != nil {
		return pause{}, fmt.Errorf("%s on %s: %w", w.t.name, w.d.id, err)
	}
	w.d.attach(w.t, b, s)
	if !w.mode.reads() {
		return pause{}, nil
	}
	w.c.brought = a.call
	return pause{}, m.bring(w.t, w.d, w.mode.String())
}

// takeScratch takes the task's working memory.
func (a *attempt) takeScratch() (pause, error) {
	if a.scratch <= 0 {
		return pause{}, nil
	}
	if len(a.needs) == 0 {
		return pause{}, errors.New("acquire: scratch was asked for without needs: give at least one, on whose device the scratch is to be")
	}
	l, d := a.lease, &a.m.devs[a.needs[0].Device]
	if l.scratch.Bytes() != a.scratch {
		l.scratch = shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(a.scratch))}
	}
	b, err := a.take(d, a.s, l.scratch, device.Scratch)
	if errors.Is(err, device.ErrOutOfMemory) {
		return a.full(d, err)
	}
	if err != nil {
		return pause{}, fmt.Errorf("scratch on %s: %w", d.id, err)
	}
	l.Scratch = b
	a.tenant.on[d.index].count(device.Scratch, d.takes(a.scratch))
	return pause{}, nil
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
	return pause{}, fmt.Errorf("%w: %s: the task needs %s for its tensors and scratch, and %s more are in use by tasks under way; its largest tensor is %v with %s: %w",
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

// sizes add up the memory that a device needs for an attempt to succeed.
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
