package residency

import (
	"errors"
	"fmt"
	"strings"
)

// Close waits for the copies that were queued, deletes every buffer, frees
// every host buffer and closes the streams. Work of the caller's streams that
// the copies wait for must have been queued. Leases still held are an error
// that names their tensors, and their memory is freed too. A second call does
// nothing.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.line.call()
	m.mu.Unlock()
	// No copy is queued after closed was set, so streams can be ended unlocked.
	errs := []error{m.endStreams()}
	m.mu.Lock()
	defer m.mu.Unlock()
	errs = append(errs, m.leaks())
	for _, t := range m.tensors {
		for i := range m.devs {
			d := &m.devs[i]
			d.copy(t).leased = 0
			d.free(t, "closed")
		}
		m.dropHost(t)
		t.truth = nowhere
	}
	for _, l := range m.leases {
		m.freeScratch(l)
	}
	for i := range m.devs {
		errs = append(errs, m.devs[i].freeErr)
	}
	errs = append(errs, m.host.close())
	m.disown()
	return errors.Join(errs...)
}

// leaks is an error naming the tensors that are still leased, or nil.
func (m *Manager) leaks() error {
	if len(m.leases) == 0 {
		return nil
	}
	var names []string
	for _, l := range m.leases {
		for _, n := range l.needs {
			names = append(names, n.Tensor.name+" on "+m.devs[n.Device].id)
		}
	}
	return fmt.Errorf("close: %d lease(s) not released: %w: %s", len(m.leases), ErrLeased, strings.Join(names, ", "))
}
