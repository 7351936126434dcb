package residency

import (
	"github.com/berth-ml/berth/engine/device"
)

// AcquireNow is Acquire for a task that finds all it needs on the spot: it leases
// tensors that are on their devices, and takes free memory for those that the task
// writes. It reports false, and has taken nothing, if anything would have to be
// copied, evicted or waited for, if a need is wrong, or if the tenant has announced an
// order of uses. Then Acquire is the way. It costs a fraction of it.
func (u *Tenant) AcquireNow(s device.Stream, needs []Need, l *Lease) bool {
	m := u.Manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.held || u.usable() != nil || u.order.uses != nil || m.line.Len() > 0 {
		return false
	}
	m.clock++
	u.acted = m.clock
	l.tenant, l.stream, l.needs, l.Buffers, l.Ready = u, s, l.needs[:0], l.Buffers[:0], l.Ready[:0]
	queue := s.Record().Queue
	for i := range needs {
		if !u.knows(&needs[i]) || !m.leaseNow(&needs[i], s, queue, l) {
			m.undoNow(l)
			return false
		}
	}
	u.noteHits(l)
	l.held = true
	m.leases = append(m.leases, l)
	return true
}

// leaseNow leases one need, and takes free memory for it if it is only written.
func (m *Manager) leaseNow(n *Need, s device.Stream, queue device.Queue, l *Lease) bool {
	t, d, c := n.Tensor, &m.devs[n.Device], n.copy()
	reads := n.Mode.reads()
	if c.writing || t.beingWritten() || n.Mode.writes() && c.leased > 0 {
		return false
	}
	switch here := t.current(c); {
	case here && !c.free(queue, n.Mode), !here && (reads || c.leased > 0):
		return false
	case !here:
		b, err := s.Alloc(t.meta, t.usage)
		if err != nil {
			return false // Acquire makes room
		}
		d.attach(t, b, s)
	}
	d.unlist(t)
	c.used, c.writing = m.clock, n.Mode.writes()
	d.lease(t)
	l.needs, l.Buffers, l.Ready = append(l.needs, *n), append(l.Buffers, c.buf), append(l.Ready, device.Event{})
	return true
}

// free reports whether a task in a queue can use a current copy without waiting for
// another queue. It forgets events that have ended well.
func (c *devCopy) free(queue device.Queue, mode Mode) bool {
	if c.Ready.Queue != queue {
		if !c.Ready.Done() || c.failure() != nil {
			return false
		}
		c.Settle()
	}
	if c.Moved.Queue != nil {
		return false
	}
	for i := range c.readers {
		if e := &c.readers[i]; mode.writes() && e.Queue != queue && !e.Done() {
			return false
		}
	}
	return true
}

// undoNow ends the leases that AcquireNow has taken so far.
func (m *Manager) undoNow(l *Lease) {
	for i := range l.needs {
		n := &l.needs[i]
		c, d := n.copy(), &m.devs[n.Device]
		d.unlease(n.Tensor)
		if c.writing = false; c.version == 0 && c.leased == 0 {
			d.free(n.Tensor, "not acquired")
		}
		d.rank(n.Tensor)
	}
	l.needs, l.Buffers, l.stream = l.needs[:0], l.Buffers[:0], nil
}

// noteHits counts the tensors that a lease reads.
func (u *Tenant) noteHits(l *Lease) {
	hits := u.ledger.Hits()
	defer hits.End()
	for i := range l.needs {
		if n := &l.needs[i]; n.Mode.reads() {
			hits.Add(n.Device, n.Tensor.name, n.Tensor.usage, n.Tensor.bytes, n.Mode.String())
		}
	}
}
