package residency

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// Acquire leases all needs at once, or none, and scratch bytes of working memory
// on the device of the first need. It queues missing copies, and makes stream s,
// on which the task will run, wait for them and for the readers and writers of
// each buffer that the task overwrites. It blocks only for memory, for a store,
// or for a lease of another stream that conflicts. Copies that fail later make s
// fail, through its events.
//
// A task whose needs and scratch fit in its device's memory always gets them, once
// the leases of others have ended. Errors: ErrUndefined for reading a tensor that
// was never written, ErrBudget when the needs cannot fit, ErrLeased when s itself
// has a conflicting lease, ErrNotResident under a seal, and the errors of devices
// and stores.
func (m *Manager) Acquire(ctx context.Context, s device.Stream, needs []Need, scratch int64, l *Lease) error {
	if l.held {
		return fmt.Errorf("acquire: %w: release this lease before reusing it", ErrLeased)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	a := attempt{m: m, s: s, queue: s.Record().Queue, needs: needs, scratch: scratch, lease: l, call: m.clock}
	for {
		err := ctx.Err()
		var p pause
		if err == nil {
			p, err = a.try()
		}
		if err == nil && p.kind == none {
			a.grant()
			return nil
		}
		a.undo()
		if err == nil && p.kind != forNothing {
			a.cleared = false
			err = m.waitUnlocked(ctx, p)
		}
		if err != nil {
			return err
		}
	}
}

// try makes the attempt: it collects the wants, gives each of them memory and
// contents, and makes the stream wait. Then grant can fill the lease in. Otherwise
// the attempt fails, or returns a pause.
func (a *attempt) try() (pause, error) {
	m := a.m
	if m.closed {
		return pause{}, fmt.Errorf("acquire: %w", ErrClosed)
	}
	if len(m.host.dropped)+len(m.host.warm) > 0 {
		m.host.sweep()
	}
	if err := a.collect(); err != nil {
		return pause{}, err
	}
	if p, err := a.checkLeases(); err != nil || p.kind != none {
		return p, err
	}
	a.expect()
	if err := a.makeRoom(); err != nil {
		return pause{}, err
	}
	if p, err := a.supply(); err != nil || p.kind != none {
		return p, err
	}
	if p, err := a.takeScratch(); err != nil || p.kind != none {
		return p, err
	}
	if err := a.fetchAhead(); err != nil {
		return pause{}, err
	}
	return pause{}, a.follow()
}

// collect checks the needs and merges needs of the same tensor and device.
func (a *attempt) collect() error {
	m, x := a.m, &a.m.scratch
	x.attempt++
	x.wants = x.wants[:0]
	for i := range a.needs {
		n := &a.needs[i]
		if !m.knows(n) || n.Mode == 0 || n.Mode > ReadWrite {
			return fmt.Errorf("acquire: need %d: give a tensor and a device of this manager, and a mode", i)
		}
		c := n.copy()
		if c.wanted == x.attempt {
			x.wants[c.want].mode |= n.Mode
			continue
		}
		c.wanted, c.want = x.attempt, len(x.wants)
		x.wants = append(x.wants, want{n.Tensor, &m.devs[n.Device], c, n.Mode})
	}
	return nil
}

// checkLeases pauses while a lease of another stream conflicts. It fails if a
// lease of s itself does: that one ends only after this call.
func (a *attempt) checkLeases() (pause, error) {
	m := a.m
	for i := range m.scratch.wants {
		w := &m.scratch.wants[i]
		if !w.conflicts() {
			continue
		}
		for _, l := range m.leases {
			if l.stream == a.s && slices.ContainsFunc(l.needs, func(n Need) bool { return n.Tensor == w.t }) {
				return pause{}, fmt.Errorf("%s: %w by the same stream: release that lease first", w.t.name, ErrLeased)
			}
		}
		return pause{kind: forRelease}, nil
	}
	return pause{}, nil
}

// conflicts reports whether a lease writes the contents that w reads, or uses a
// buffer that w overwrites. The lease's task is not queued yet, so there is no
// event to wait for.
func (w *want) conflicts() bool {
	overwrites := w.mode.writes() || !w.t.current(w.c)
	return overwrites && w.c.leased > 0 || w.c.writing || w.t.beingWritten()
}

// supply gives every want memory, and the contents that it reads. A copy that is
// not current has no buffer yet: it was freed when it became stale.
func (a *attempt) supply() (pause, error) {
	wants := a.m.scratch.wants
	for i := range wants {
		if w := &wants[i]; w.mode.reads() && w.t.truth == nowhere {
			return pause{}, fmt.Errorf("%s is needed on %s for %v: %w: fill, feed or write it first", w.t.name, w.d.id, w.mode, ErrUndefined)
		}
	}
	for i := range wants {
		w := &wants[i]
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
	for i := range t.copies {
		if c := &t.copies[i]; i != t.truth && c.failed() && c.leased == 0 && c.brought != a.call {
			a.m.devs[i].free(t, "failed")
		}
	}
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
		return pause{}, errors.New("acquire: scratch is taken on the device of the first need, but there are no needs")
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
	return pause{}, nil
}

// follow makes the stream wait for the contents that the task reads, and for all
// uses of the buffers that it overwrites, which need not end well. A copy to the
// host delays only the task's first write to the buffer, if the stream is a
// device.WriteDelayer.
func (a *attempt) follow() error {
	x := &a.m.scratch
	x.waits, x.ends = x.waits[:0], x.ends[:0]
	delayer, _ := a.s.(device.WriteDelayer)
	for i := range x.wants {
		w := &x.wants[i]
		x.ends.Add(w.c.moved)
		switch {
		case !w.mode.reads():
			x.ends.Add(w.c.ready)
		case !w.c.ready.Done():
			x.waits.Add(w.c.ready)
		default:
			if err := copyFailed(w.c.ready); err != nil {
				return fmt.Errorf("%s on %s: %w", w.t.name, w.d.id, err)
			}
		}
		if !w.mode.writes() {
			continue
		}
		copiesOut := w.d.out.Record().Queue
		for _, e := range w.c.readers {
			if delayer != nil && e.Queue == copiesOut && !e.Done() {
				delayer.DelayWrite(w.c.buf, e)
			} else {
				x.ends.Add(e)
			}
		}
	}
	return a.queueWaits()
}

// queueWaits makes the stream wait for the events that follow has collected.
func (a *attempt) queueWaits() error {
	x := &a.m.scratch
	for _, e := range x.waits {
		if e.Queue == a.queue {
			continue
		}
		if err := a.s.WaitFor(e); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	for _, e := range x.ends {
		if e.Queue == a.queue || e.Done() || x.waits.Covers(e) {
			continue
		}
		if err := a.s.WaitForEnd(e); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	return nil
}

// grant fills in the lease.
func (a *attempt) grant() {
	m, l := a.m, a.lease
	l.held, l.stream = true, a.s
	l.needs = append(l.needs[:0], a.needs...)
	l.Buffers = l.Buffers[:0]
	for i := range m.scratch.wants {
		w := &m.scratch.wants[i]
		w.c.used = a.call
		w.c.writing = w.mode.writes()
		if w.mode.reads() && w.c.brought != a.call {
			m.ledger.add(entry{kind: Hit, t: w.t, device: w.d.index, from: w.d.id, to: w.d.id, cause: w.mode.String()})
		}
	}
	for i := range l.needs {
		c := l.needs[i].copy()
		c.leased++
		l.Buffers = append(l.Buffers, c.buf)
	}
	m.order.advance(a.launch)
	m.leases = append(m.leases, l)
}

// expect makes an attempt's launch the present one of its device.
func (a *attempt) expect() {
	o := &a.m.order
	a.launch = o.find(a.needs)
	if a.launch >= 0 && len(a.needs) > 0 {
		a.m.devs[a.needs[0].Device].now = o.uses.local[a.launch]
	}
}
