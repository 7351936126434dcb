package residency

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// Release ends a lease. done marks the end of the task's work: each tensor that
// it wrote has its truth on the task's device from then on, or from the event in
// l.Ready, a version later, and its other copies are stale.
func (m *Manager) Release(l *Lease, done device.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unlist(l); err != nil {
		return err
	}
	for i := range l.needs {
		n := &l.needs[i]
		c := n.copy()
		m.devs[n.Device].unlease(n.Tensor)
		c.readers.Add(done)
	}
	for i := range l.needs {
		n := &l.needs[i]
		t := n.Tensor
		if c := n.copy(); c.writing {
			t.version++
			t.discarded = false
			c.writing = false
			ready := l.Ready[i]
			if ready.Queue == nil {
				ready = done
			}
			c.write(t.version, ready)
			c.readers.Add(done)
			t.truth, t.src = n.Device, nil
			m.dropHost(t)
		}
		m.freeStale(t, "stale")
		m.rankAll(t)
	}
	m.freeScratch(l, l.needs, done)
	return nil
}

// Abandon ends a lease whose task was not queued: nothing counts as used or
// written. Tensors that were to be written keep their contents.
func (m *Manager) Abandon(l *Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unlist(l); err != nil {
		return err
	}
	for i := range l.needs {
		n := &l.needs[i]
		c := n.copy()
		m.devs[n.Device].unlease(n.Tensor)
		c.writing = false
	}
	for i := range l.needs {
		m.freeStale(l.needs[i].Tensor, "abandoned")
		m.rankAll(l.needs[i].Tensor)
	}
	m.freeScratch(l, l.needs)
	return nil
}

// freeScratch frees the scratch of a lease, or of an attempt at it, that has needs.
// uses is its last use, if there was one.
func (m *Manager) freeScratch(l *Lease, needs []Need, uses ...device.Event) {
	if l.Scratch == nil {
		return
	}
	l.done = append(l.done[:0], uses...)
	d := &m.devs[needs[0].Device]
	d.note(l.Scratch.Free(l.done...), "scratch")
	d.of(needs[0].Tensor).count(device.Scratch, -d.takes(l.scratch.Bytes()))
	l.Scratch = nil
}

// unlist takes l off the list of held leases.
func (m *Manager) unlist(l *Lease) error {
	i := slices.Index(m.leases, l)
	if i < 0 {
		return fmt.Errorf("release: %w", ErrNotHeld)
	}
	m.leases = slices.Delete(m.leases, i, i+1)
	l.held, l.stream = false, nil
	l.Buffers = l.Buffers[:0]
	m.line.Call()
	return nil
}
