package residency

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// Acquire leases all needs at once, or none. It queues missing copies, and makes
// stream s, on which the task will run, wait for them and for the readers and
// writers of each buffer that the task overwrites. It blocks only for memory,
// for a store, or for a lease of another stream that conflicts. Copies that fail
// later make s fail, through its events.
//
// Errors: ErrUndefined for reading a tensor that was never written, ErrBudget
// when the needs cannot fit, ErrLeased when s itself has a conflicting lease,
// ErrNotResident under a seal, and the errors of devices and stores.
func (m *Manager) Acquire(ctx context.Context, s device.Stream, needs []Need, l *Lease) error {
	if l.held {
		return fmt.Errorf("acquire: %w: release this lease before reusing it", ErrLeased)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	a := attempt{m: m, s: s, queue: s.Record().Queue, needs: needs, call: m.clock}
	for {
		err := ctx.Err()
		var p pause
		if err == nil {
			p, err = a.try()
		}
		if err == nil && p.kind == none {
			a.grant(l)
			return nil
		}
		if err == nil {
			err = m.waitUnlocked(ctx, p)
		}
		if err != nil {
			a.undo()
			return err
		}
	}
}

// try makes the attempt: it collects the wants, reuses pooled buffers for them,
// makes room for the rest and allocates, queues copies, and makes the stream
// wait. Then grant can fill the lease in. Otherwise the attempt fails, or
// returns a pause.
func (a *attempt) try() (pause, error) {
	m := a.m
	if m.closed {
		return pause{}, fmt.Errorf("acquire: %w", ErrClosed)
	}
	if len(m.host.dropped)+len(m.host.warm) > 0 {
		m.host.sweep()
	}
	m.expire()
	if err := a.collect(); err != nil {
		return pause{}, err
	}
	if p, err := a.checkLeases(); err != nil || p.kind != none {
		return p, err
	}
	if err := a.reuse(); err != nil {
		return pause{}, err
	}
	if p, err := a.makeRoom(); err != nil || p.kind != none {
		return p, err
	}
	if p, err := a.allocate(); err != nil || p.kind != none {
		return p, err
	}
	if p, err := a.fetch(); err != nil || p.kind != none {
		return p, err
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

// knows reports whether a need's tensor and device belong to the manager.
func (m *Manager) knows(n *Need) bool {
	return n.Tensor != nil && n.Tensor.shared == &m.shared && n.Device >= 0 && n.Device < len(m.devs)
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

// reuse gets the wants buffers that exist already, and sums up the bytes that
// are missing on each device. For each want:
//   - contents to read must exist;
//   - a stale buffer that is still in use goes to the pool, so that new contents
//     need not wait for the readers of the old ones;
//   - a want without a buffer takes one from the pool.
//
// A task may get any pooled buffer. A copy gets only one that nothing uses: if
// it waited for old uses, the copies queued after it would wait too.
func (a *attempt) reuse() error {
	m := a.m
	for i := range m.devs {
		m.devs[i].missing = 0
	}
	for i := range m.scratch.wants {
		w := &m.scratch.wants[i]
		if w.mode.reads() && w.t.truth == nowhere {
			return fmt.Errorf("%s is needed on %s for %v: %w: fill, feed or write it first",
				w.t.name, w.d.id, w.mode, ErrUndefined)
		}
		if w.c.leased == 0 && !w.t.current(w.c) && w.c.busy() {
			w.d.recycle(w.t, "stale")
		}
		if w.c.buf != nil {
			continue
		}
		writer := a.queue
		if w.mode.reads() {
			writer = nil // a copy stream will write it
		}
		if !w.d.take(w.t, writer, writer != nil) {
			w.d.missing += w.t.bytes
		}
	}
	return nil
}

// makeRoom makes room on every device for the bytes that are missing there.
func (a *attempt) makeRoom() (pause, error) {
	for i := range a.m.devs {
		d := &a.m.devs[i]
		if d.missing == 0 || d.fits(d.missing) {
			continue
		}
		if p, err := a.makeRoomOn(d); err != nil || p.kind != none {
			return p, err
		}
	}
	return pause{}, nil
}

// allocate gives every want a buffer.
func (a *attempt) allocate() (pause, error) {
	wants := a.m.scratch.wants
	for i := range wants {
		w := &wants[i]
		if w.c.buf != nil {
			continue
		}
		if p, err := a.allocateOn(w.d, w.t); err != nil || p.kind != none {
			return p, err
		}
		w.d.missing -= w.t.bytes
	}
	return pause{}, nil
}

// fetch queues copies of the tensors that the task reads and that are not on its
// device. If some must be read from a store, it pauses for the first of them.
func (a *attempt) fetch() (stream pause, err error) {
	wants := a.m.scratch.wants
	for i := range wants {
		w := &wants[i]
		switch {
		case !w.mode.reads() || w.t.current(w.c):
		case a.m.mustStream(w.t, w.d):
			if stream.kind == none {
				stream = pause{kind: forStore, t: w.t, d: w.d.index}
			}
		default:
			if err := a.m.bring(w.t, w.d, w.mode.String()); err != nil {
				return pause{}, err
			}
			w.c.moved = a.call
		}
	}
	return stream, nil
}

// follow makes the stream wait for the contents that the task reads, and for all
// uses of the buffers that it overwrites. A copy to the host delays only the
// task's first write to the buffer, if the stream is a device.WriteDelayer.
func (a *attempt) follow() error {
	m := a.m
	waits := m.scratch.waits[:0]
	delayer, _ := a.s.(device.WriteDelayer)
	for i := range m.scratch.wants {
		w := &m.scratch.wants[i]
		if !w.c.ready.Done() {
			waits.add(w.c.ready)
		} else if w.mode.reads() {
			if err := w.c.ready.Err(); err != nil {
				return fmt.Errorf("%s on %s: %w", w.t.name, w.d.id, err)
			}
		}
		if !w.mode.writes() {
			continue
		}
		copiesOut := w.d.out.Record().Queue
		for _, e := range w.c.readers {
			switch {
			case e.Done():
			case delayer != nil && e.Queue == copiesOut:
				delayer.DelayWrite(w.c.buf, e)
			default:
				waits.add(e)
			}
		}
	}
	m.scratch.waits = waits
	for _, e := range waits {
		if e.Queue == a.queue {
			continue
		}
		if err := a.s.WaitFor(e); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	return nil
}

// grant fills in the lease.
func (a *attempt) grant(l *Lease) {
	m := a.m
	l.held, l.stream = true, a.s
	l.needs = append(l.needs[:0], a.needs...)
	l.Buffers = l.Buffers[:0]
	for i := range m.scratch.wants {
		w := &m.scratch.wants[i]
		w.c.used = a.call
		w.c.writing = w.mode.writes()
		if w.mode.reads() && w.c.moved != a.call {
			m.ledger.add(entry{kind: Hit, t: w.t, device: w.d.index, from: w.d.id, to: w.d.id, cause: w.mode.String()})
		}
	}
	for i := range l.needs {
		c := l.needs[i].copy()
		c.leased++
		l.Buffers = append(l.Buffers, c.buf)
	}
	m.order.advance(m.scratch.wants)
	m.leases = append(m.leases, l)
}

// undo pools the buffers that a failed Acquire got and did not fill. It also
// unlocks the copies that the attempt wanted.
func (a *attempt) undo() {
	m := a.m
	m.scratch.attempt++
	for i := range a.needs {
		n := &a.needs[i]
		if !m.knows(n) {
			continue
		}
		if c := n.copy(); c.buf != nil && c.version == 0 && c.leased == 0 {
			m.devs[n.Device].recycle(n.Tensor, "not acquired")
		}
	}
}
