package residency

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// attempt is one call of Acquire. It is made again after each pause: copies that
// it made current by then are kept, but nothing is locked meanwhile.
type attempt struct {
	m       *Manager
	tenant  *Tenant
	s       device.Stream
	queue   device.Queue // of s
	needs   []Need
	scratch int64 // bytes
	lease   *Lease
	call    uint64 // the manager's clock
	cleared bool   // it has given up all it had, since the last pause
	launch  int    // in the known order of uses; -1 if it is not there

	*lists
}

// want is one copy that an attempt must have: needs of the same tensor on the same device
// make one want.
type want struct {
	t    *Tensor
	d    *devState
	c    *devCopy // of t on d
	mode Mode
}

// lists are filled by an attempt. An attempt owns its lists while its call of Acquire
// runs: several calls can wait at once. Then Manager.spare keeps them for the next one.
type lists struct {
	wants []want
	waits device.Fence // what the stream is to wait for
	ends  device.Fence // and, however it ends
	made  device.Fence // the events by which a tensor's contents are made
}

// takeLists gets lists for an attempt, which puts them back in m.spare.
func (m *Manager) takeLists() *lists {
	last := len(m.spare) - 1
	if last < 0 {
		return new(lists)
	}
	n := m.spare[last]
	m.spare = m.spare[:last]
	return n
}

// Acquire leases all needs at once, or none, and scratch bytes of working memory
// on the device of the first need. It queues missing copies, and makes stream s,
// on which the task will run, wait for them and for the readers and writers of
// each buffer that the task overwrites. Copies that fail later make s fail, through
// its events.
//
// It blocks only for memory, for a store, for a lease of another stream that
// conflicts, or behind an earlier call that does. First come, first served: a call
// that blocks, other than for a store, keeps its turn, and later calls that use the
// same device or a tensor of it wait behind it. So a call that writes what many
// read, or takes most of a device, is served after a bounded number of others.
//
// A task whose needs and scratch fit in its device's memory always gets them, once
// the leases of others have ended. Errors: ErrUndefined for reading a tensor that
// was never written, ErrBudget when the needs cannot fit, ErrLeased when s itself
// has a conflicting lease, ErrNotResident under a seal, and the errors of devices
// and stores.
func (u *Tenant) Acquire(ctx context.Context, s device.Stream, needs []Need, scratch int64, l *Lease) error {
	m := u.Manager
	if l.held {
		return fmt.Errorf("acquire: %w: release this lease before reusing it", ErrLeased)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	u.acted, l.tenant = m.clock, u
	m.host.Tick(m.clock)
	a := attempt{m: m, tenant: u, s: s, queue: s.Record().Queue, needs: needs, scratch: scratch, lease: l, call: m.clock, lists: m.takeLists()}
	defer func() { m.spare = append(m.spare, a.lists) }()
	return m.retry(ctx, claim{needs, s}, a.try)
}

// try makes one attempt. It fills in the lease, or takes nothing.
func (a *attempt) try() (pause, error) {
	for a.cleared = false; ; {
		p, err := a.get()
		if err == nil && p.kind == none {
			a.grant()
			return p, nil
		}
		a.undo()
		if err != nil || p.kind != again {
			return p, err
		}
	}
}

// get collects the wants, gives each of them memory and contents, and makes the
// stream wait.
func (a *attempt) get() (pause, error) {
	m := a.m
	if err := a.tenant.usable(); err != nil {
		return pause{}, fmt.Errorf("acquire: %w", err)
	}
	m.host.Sweep()
	if err := a.collect(); err != nil {
		return pause{}, err
	}
	if p, err := a.checkLeases(); err != nil || p.kind != none {
		return p, err
	}
	a.expect()
	if err := a.leaveEarly(); err != nil {
		return pause{}, err
	}
	if err := a.makeRoom(); err != nil {
		return pause{}, err
	}
	if p, err := a.supply(); err != nil || p.kind != none {
		return p, err
	}
	if p, err := a.takeScratch(); err != nil || p.kind != none {
		return p, err
	}
	if err := a.loadEarly(); err != nil {
		return pause{}, err
	}
	return pause{}, a.follow()
}

// collect checks the needs and merges needs of the same tensor and device.
func (a *attempt) collect() error {
	m := a.m
	a.wants = a.wants[:0]
	for i := range a.needs {
		n := &a.needs[i]
		if !a.tenant.knows(n) || n.Mode == 0 || n.Mode > ReadWrite {
			return fmt.Errorf("acquire: need %d is incomplete: give a tensor of this tenant, a device that the tenant uses, and a mode", i)
		}
		c := n.copy()
		if c.wanted {
			a.wants[c.want].mode |= n.Mode
			continue
		}
		c.wanted, c.want = true, len(a.wants)
		m.devs[n.Device].unlist(n.Tensor)
		a.wants = append(a.wants, want{n.Tensor, &m.devs[n.Device], c, n.Mode})
	}
	return nil
}

// checkLeases pauses while a lease of another stream conflicts. It fails if a
// lease of s itself does: that one ends only after this call.
func (a *attempt) checkLeases() (pause, error) {
	m := a.m
	for i := range a.wants {
		w := &a.wants[i]
		if !w.conflicts() {
			continue
		}
		for _, l := range m.leases {
			if l.stream == a.s && slices.ContainsFunc(l.needs, func(n Need) bool { return n.Tensor == w.t }) {
				return pause{}, fmt.Errorf("%s: %w by the same stream: release that lease first", w.t.name, ErrLeased)
			}
		}
		return pause{kind: forTurn}, nil
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

// expect makes an attempt's launch the present one of its device. The device's queues
// rank copies by the distance of their next use. With the next launch, all distances
// shrink by one. After any other launch, the queues are made anew.
func (a *attempt) expect() {
	o := &a.tenant.order
	a.launch = o.find(a.needs)
	if a.launch < 0 || len(a.needs) == 0 {
		return
	}
	if d := a.needs[0].Device; !a.tenant.on[d].place.reach(o.uses.local[a.launch]) {
		a.m.devs[d].unrank()
	}
}

// undo frees the memory that the attempt got and did not fill. It also unlocks the
// copies that the attempt wanted.
func (a *attempt) undo() {
	m := a.m
	for i := range a.wants {
		w := &a.wants[i]
		w.c.wanted = false
		if w.c.buf != nil && w.c.version == 0 && w.c.leased == 0 {
			w.d.free(w.t, "not acquired")
		}
		w.d.rank(w.t)
	}
	a.wants = a.wants[:0]
	m.freeScratch(a.lease, a.needs)
}

// grant fills in the lease.
func (a *attempt) grant() {
	m, l := a.m, a.lease
	l.held, l.stream = true, a.s
	l.needs = append(l.needs[:0], a.needs...)
	l.Buffers, l.Ready = l.Buffers[:0], l.Ready[:0]
	for i := range a.wants {
		w := &a.wants[i]
		w.c.used, w.c.wanted = a.call, false
		w.c.writing = w.mode.writes()
		if w.mode.reads() && w.c.brought != a.call {
			a.tenant.noteHit(w)
		}
	}
	for _, n := range l.needs {
		m.devs[n.Device].lease(n.Tensor)
		l.Buffers, l.Ready = append(l.Buffers, n.copy().buf), append(l.Ready, device.Event{})
	}
	a.wants = a.wants[:0]
	a.tenant.order.advance(a.launch)
	m.leases = append(m.leases, l)
}

// noteHit counts a tensor that a task reads where it is: for the tenant whose task it is.
func (u *Tenant) noteHit(w *want) {
	u.ledger.Add(w.d.index, ledger.Row{
		Value: w.t.name, Usage: w.t.usage, Bytes: w.t.bytes, Kind: ledger.Hit, From: w.d.id, To: w.d.id, Cause: w.mode.String(),
	})
}

// follow makes the stream wait for the contents that the task reads, and for all
// uses of the buffers that it overwrites, which need not end well. If the stream is a
// device.Delayer, contents that have not arrived delay only the task's first read of
// them, and a copy to the host only its first write to the buffer.
func (a *attempt) follow() error {
	a.waits, a.ends = a.waits[:0], a.ends[:0]
	delayer, _ := a.s.(device.Delayer)
	for i := range a.wants {
		w := &a.wants[i]
		a.ends.Add(w.c.Moved)
		if !w.mode.reads() {
			a.ends.Add(w.c.Ready)
		} else if err := w.c.failure(); err != nil {
			return fmt.Errorf("%s on %s: %w", w.t.name, w.d.id, &CopyError{err})
		} else {
			w.c.Makers(&a.made)
			for _, e := range a.made {
				if delayer != nil && e.Queue != a.queue {
					delayer.DelayRead(w.c.buf, e)
				} else {
					a.waits.Add(e)
				}
			}
		}
		if !w.mode.writes() {
			continue
		}
		copiesOut := w.d.of(w.t).out.Record().Queue
		for _, e := range w.c.readers {
			if delayer != nil && e.Queue == copiesOut && !e.Done() {
				delayer.DelayWrite(w.c.buf, e)
			} else {
				a.ends.Add(e)
			}
		}
	}
	return a.queueWaits()
}

// queueWaits makes the stream wait for the events that follow has collected. Causes come
// before their copy in a.waits, and end before it: the stream waits for the end of the
// copy first, so that it wakes once.
func (a *attempt) queueWaits() error {
	for i := len(a.waits) - 1; i > 0; i-- {
		if err := a.s.WaitForEnd(a.waits[i]); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	for _, e := range a.waits {
		if e.Queue == a.queue {
			continue
		}
		if err := a.s.WaitFor(e); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	for _, e := range a.ends {
		if e.Queue == a.queue || e.Done() || a.waits.Covers(e) {
			continue
		}
		if err := a.s.WaitForEnd(e); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	return nil
}
