package residency

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Close closes the tenants that are left, frees all host memory and closes the
// streams. A second call does nothing.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.mu.Unlock()
	m.floors.Close(ErrClosed)
	m.opening.Wait()
	m.mu.Lock()
	tenants := slices.Clone(m.tenants)
	m.mu.Unlock()
	var errs []error
	for _, u := range tenants {
		errs = append(errs, m.dismiss(u))
	}
	errs = append(errs, m.endMoves())
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.devs {
		errs = append(errs, m.devs[i].freeErr)
	}
	errs = append(errs, m.host.Close())
	m.disown()
	return errors.Join(errs...)
}

// dismiss closes a tenant.
func (m *Manager) dismiss(u *tenant) error {
	m.mu.Lock()
	if u.gone {
		m.mu.Unlock()
		return nil
	}
	u.gone = true
	held := m.endLeases(u)
	for _, t := range u.tensors {
		for i := range m.devs {
			m.devs[i].free(t, "closed")
		}
		m.dropHost(t)
		t.truth, t.src = nowhere, nil
	}
	clear(u.tensors)
	m.leave(u)
	m.line.Call()
	m.mu.Unlock()
	// No copy is queued after gone was set, so streams can be ended unlocked.
	err := errors.Join(u.endStreams(), held)
	m.mu.Lock()
	m.host.Sweep()
	m.mu.Unlock()
	return errors.Join(err, m.resizeFile())
}

// endLeases ends the leases that a tenant still holds. Its error names their
// tensors; it is nil if there are none.
func (m *Manager) endLeases(u *tenant) error {
	var names []string
	count := 0
	m.leases = slices.DeleteFunc(m.leases, func(l *Lease) bool {
		if l.tenant != &u.account {
			return false
		}
		count++
		for _, n := range l.needs {
			m.devs[n.Device].unlease(n.Tensor)
			names = append(names, n.Tensor.name+" on "+m.devs[n.Device].id)
		}
		m.freeScratch(l, l.needs)
		return true
	})
	if count == 0 {
		return nil
	}
	return fmt.Errorf("close: %d lease(s) not released: %w: %s", count, ErrLeased, strings.Join(names, ", "))
}

// endMoves closes the streams that move copies together, which waits for their
// work.
func (m *Manager) endMoves() error {
	var errs []error
	for i := range m.devs {
		if s := m.devs[i].move; s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// leave removes u, and gives its floors to those who wait.
func (m *Manager) leave(u *tenant) {
	m.tenants = slices.DeleteFunc(m.tenants, func(o *tenant) bool { return o == u })
	delete(m.names, u.name)
	m.floors.Release(u.opt.Floors)
}
