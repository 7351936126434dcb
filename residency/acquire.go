package residency

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// Mode is how a task uses a tensor.
type Mode uint8

// The modes. Write leaves the old contents undefined; ReadWrite changes them in
// place.
const (
	Read Mode = 1 << iota
	Write
	ReadWrite = Read | Write
)

// String is "read", "write" or "read-write".
func (m Mode) String() string {
	switch m {
	case Read:
		return "read"
	case Write:
		return "write"
	case ReadWrite:
		return "read-write"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Need is a tensor that a task needs on a device, given by its index. The same
// tensor may be needed twice on one device: both get the same buffer, and the
// modes add up.
type Need struct {
	Tensor *Tensor
	Device int
	Mode   Mode
}

// Lease holds a task's tensors in place, from Acquire to Release. The zero
// Lease is ready for use, and it is reused without allocating. It belongs to
// one goroutine.
type Lease struct {
	Buffers []device.Buffer // per need, valid until Release

	m      *Manager // nil when nothing is held
	stream device.Stream
	needs  []Need
}

// want is a distinct tensor and device among the needs of an attempt.
type want struct {
	t    *Tensor
	d    int
	mode Mode
}

func (w *want) copy() *devCopy { return &w.t.copies[w.d] }

// pause says what an attempt must wait for, without the lock.
type pause struct {
	kind  pauseKind
	event device.Event // forEvent
	stage *Tensor      // forStore: what to read
	d     int          // forStore: for which device
}

type pauseKind uint8

const (
	none pauseKind = iota
	again
	forEvent
	forRelease
	forStore
)

// Acquire leases all needs at once, or none. Copies that are missing are
// queued, and stream s, on which the task will run, is made to wait for them
// and for the readers and writers of what the task overwrites. It blocks only
// for memory, for a store, or for a lease of another stream that conflicts.
// Copies that fail later make s fail, through its events.
//
// Errors: ErrUndefined for reading what was never written, ErrBudget when the
// needs cannot fit, ErrLeased when s itself holds a conflicting lease,
// ErrNotResident under a seal, and what devices and stores answer.
func (m *Manager) Acquire(ctx context.Context, s device.Stream, needs []Need, l *Lease) error {
	if l.m != nil {
		return fmt.Errorf("acquire: %w: release this lease before reusing it", ErrLeased)
	}
	m.mu.Lock()
	m.clock++
	call := m.clock
	for {
		err := ctx.Err()
		var p pause
		if err == nil {
			p, err = m.try(s, needs, l, call)
		}
		if err != nil {
			m.undo(needs)
		}
		if err != nil || p.kind == none {
			m.mu.Unlock()
			return err
		}
		if err := m.sitOut(ctx, p); err != nil {
			m.undo(needs)
			m.mu.Unlock()
			return err
		}
	}
}

// sitOut waits for p with the lock given up, and takes it again.
func (m *Manager) sitOut(ctx context.Context, p pause) error {
	if p.kind == forRelease && m.freed == nil {
		m.freed = make(chan struct{})
	}
	freed := m.freed
	m.mu.Unlock()
	defer m.mu.Lock()
	switch p.kind {
	case forEvent:
		return ended(ctx, p.event)
	case forRelease:
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	case forStore:
		return m.stage(ctx, p.stage, p.d)
	}
	return nil
}

// try makes one attempt: mark what is wanted, make room, allocate, queue
// copies, grant. It either grants the lease, or fails, or says what to wait
// for; what it did until then is kept as copies that nobody holds.
func (m *Manager) try(s device.Stream, needs []Need, l *Lease, call uint64) (pause, error) {
	if m.closed {
		return pause{}, fmt.Errorf("acquire: %w", ErrClosed)
	}
	if len(m.graves) > 0 {
		m.sweepHost()
	}
	m.expire()
	if p, err := m.mark(s, needs); err != nil || p.kind != none {
		return p, err
	}
	if err := m.plan(s); err != nil {
		return pause{}, err
	}
	for d := range m.places {
		if p, err := m.room(d, s); err != nil || p.kind != none {
			return p, err
		}
	}
	if p, err := m.provide(s, call); err != nil || p.kind != none {
		return p, err
	}
	if err := m.await(s); err != nil {
		return pause{}, err
	}
	m.grant(s, needs, l, call)
	return pause{}, nil
}

// mark checks the needs and collects the distinct ones in m.wants.
func (m *Manager) mark(s device.Stream, needs []Need) (pause, error) {
	m.attempt++
	m.wants = m.wants[:0]
	for i := range needs {
		n := &needs[i]
		t := n.Tensor
		if t == nil || t.m != m || n.Device < 0 || n.Device >= len(m.places) || n.Mode == 0 || n.Mode > ReadWrite {
			return pause{}, fmt.Errorf("acquire: need %d is not a tensor, device and mode of this manager", i)
		}
		c := &t.copies[n.Device]
		if c.wanted == m.attempt {
			m.wants[c.want].mode |= n.Mode
			continue
		}
		c.wanted, c.want = m.attempt, len(m.wants)
		m.wants = append(m.wants, want{t, n.Device, n.Mode})
	}
	for i := range m.wants {
		if w := &m.wants[i]; m.conflict(w) {
			return m.conflicted(w.t, s)
		}
	}
	return pause{}, nil
}

// conflict reports whether a lease that is held writes what w reads, or uses a
// buffer that w overwrites: nothing is queued for it yet that could be waited
// for.
func (m *Manager) conflict(w *want) bool {
	c := w.copy()
	overwrites := w.mode&Write != 0 || !w.t.current(c)
	if overwrites && c.leased > 0 || c.writing {
		return true
	}
	return w.t.truth >= 0 && w.t.copies[w.t.truth].writing
}

// conflicted waits for leases of other streams; s cannot wait for its own.
func (m *Manager) conflicted(t *Tensor, s device.Stream) (pause, error) {
	for _, l := range m.active {
		if l.stream == s && slices.ContainsFunc(l.needs, func(n Need) bool { return n.Tensor == t }) {
			return pause{}, fmt.Errorf("%s: %w by the same stream: release that lease first", t.name, ErrLeased)
		}
	}
	return pause{kind: forRelease}, nil
}

// plan finds what has no contents, gives up stale buffers that are still in
// use, so that new contents need not wait for old readers, takes buffers from
// the pool, and sums up the bytes that are missing on each device. A task is
// given any pooled buffer; a copy only one that nothing uses, as long as there
// is room: it would keep the copies behind it from running beside the tasks.
func (m *Manager) plan(s device.Stream) error {
	own := s.Record().Queue
	for d := range m.places {
		m.places[d].missing = 0
	}
	for i := range m.wants {
		w := &m.wants[i]
		c := w.copy()
		if w.mode&Read != 0 && w.t.truth == nowhere {
			return fmt.Errorf("%s is needed on %s for %v: %w: fill, feed or write it first",
				w.t.name, m.places[w.d].id, w.mode, ErrUndefined)
		}
		if c.leased == 0 && !w.t.current(c) && c.busy() {
			m.recycle(w.t, w.d, "stale")
		}
		if c.buf != nil {
			continue
		}
		writer := own
		if w.mode&Read != 0 {
			writer = nil // a copy stream will be
		}
		if !m.take(w.t, w.d, writer, writer != nil) {
			m.places[w.d].missing += w.t.bytes
		}
	}
	return nil
}

// provide gives every want a buffer and queues the copies of those that are
// read. What must be read from a store comes last, one tensor an attempt.
func (m *Manager) provide(s device.Stream, call uint64) (pause, error) {
	for i := range m.wants {
		w := &m.wants[i]
		if w.copy().buf != nil {
			continue
		}
		if p, err := m.alloc(w.t, w.d, s); err != nil || p.kind != none {
			return p, err
		}
	}
	var stage pause
	for i := range m.wants {
		w := &m.wants[i]
		if w.mode&Read == 0 || w.t.current(w.copy()) {
			continue
		}
		if w.t.truth == inStore && !w.t.hostCurrent() && m.peerSource(w.t, w.d) < 0 {
			if stage.kind == none {
				stage = pause{kind: forStore, stage: w.t, d: w.d}
			}
			continue
		}
		if err := m.bring(w.t, w.d, w.mode.String()); err != nil {
			return pause{}, err
		}
		w.copy().moved = call
	}
	return stage, nil
}

// await makes s wait for the contents it reads and for all uses of what it
// overwrites; for copies to the host, only where the task does so.
func (m *Manager) await(s device.Stream) error {
	own := s.Record().Queue
	holder, _ := s.(device.Holder)
	m.waits = m.waits[:0]
	for i := range m.wants {
		w := &m.wants[i]
		c := w.copy()
		if !c.ready.Done() {
			m.waits.add(c.ready)
		} else if w.mode&Read != 0 {
			if err := c.ready.Err(); err != nil {
				return fmt.Errorf("%s on %s: %w", w.t.name, m.places[w.d].id, err)
			}
		}
		if w.mode&Write == 0 {
			continue
		}
		copies := m.places[w.d].out.Record().Queue
		for _, e := range c.readers {
			switch {
			case e.Done():
			case holder != nil && e.Queue == copies:
				holder.Hold(c.buf, e)
			default:
				m.waits.add(e)
			}
		}
	}
	for _, e := range m.waits {
		if e.Queue == own {
			continue
		}
		if err := s.WaitFor(e); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	return nil
}

// grant fills the lease in.
func (m *Manager) grant(s device.Stream, needs []Need, l *Lease, call uint64) {
	l.m, l.stream = m, s
	l.needs = append(l.needs[:0], needs...)
	l.Buffers = l.Buffers[:0]
	for i := range m.wants {
		w := &m.wants[i]
		c := w.copy()
		c.used = call
		c.writing = w.mode&Write != 0
		if w.mode&Read != 0 && c.moved != call {
			m.ledger.add(entry{kind: Hit, t: w.t, device: w.d, from: m.places[w.d].id, to: m.places[w.d].id, cause: w.mode.String()})
		}
	}
	for i := range needs {
		c := &needs[i].Tensor.copies[needs[i].Device]
		c.leased++
		l.Buffers = append(l.Buffers, c.buf)
	}
	m.order.advance(m.wants)
	m.active = append(m.active, l)
}

// undo gives up the buffers that a failed Acquire got and did not fill. It also
// ends the attempt's claim on the others.
func (m *Manager) undo(needs []Need) {
	m.attempt++
	for i := range needs {
		t, d := needs[i].Tensor, needs[i].Device
		if t == nil || t.m != m || d < 0 || d >= len(m.places) {
			continue
		}
		if c := &t.copies[d]; c.buf != nil && c.version == 0 && c.leased == 0 {
			m.recycle(t, d, "not acquired")
		}
	}
}

// Release ends a lease. done marks the end of the task's work: what it wrote
// has its truth on its device from then on, a version later, and other copies
// are stale.
func (m *Manager) Release(l *Lease, done device.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unlist(l); err != nil {
		return err
	}
	for i := range l.needs {
		n := &l.needs[i]
		c := &n.Tensor.copies[n.Device]
		c.leased--
		c.readers.add(done)
	}
	for i := range l.needs {
		n := &l.needs[i]
		t := n.Tensor
		if c := &t.copies[n.Device]; c.writing {
			t.version++
			c.writing = false
			c.arrive(t.version, done)
			t.truth, t.src = n.Device, nil
			m.loseHost(t)
		}
		m.recycleStale(t, "stale")
	}
	return nil
}

// Abandon ends a lease whose task was not queued: nothing counts as used or
// written. Contents that were to be written keep what they had.
func (m *Manager) Abandon(l *Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unlist(l); err != nil {
		return err
	}
	for i := range l.needs {
		n := &l.needs[i]
		c := &n.Tensor.copies[n.Device]
		c.leased--
		c.writing = false
	}
	for i := range l.needs {
		m.recycleStale(l.needs[i].Tensor, "abandoned")
	}
	return nil
}

// unlist takes l off the list of leases that are held.
func (m *Manager) unlist(l *Lease) error {
	i := slices.Index(m.active, l)
	if i < 0 {
		return fmt.Errorf("release: %w", ErrNotHeld)
	}
	m.active = slices.Delete(m.active, i, i+1)
	l.m, l.stream = nil, nil
	l.Buffers = l.Buffers[:0]
	m.wake()
	return nil
}

// wake lets those go on who wait for a lease to end.
func (m *Manager) wake() {
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}
