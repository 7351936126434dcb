package residency

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/internal/units"
)

// Join makes a tenant, and reserves its floors. While they do not fit beside the
// floors of other tenants, it waits until some of them have closed: of several
// calls that need memory of the same device, the first one goes first. It fails
// with ErrBudget if a device has less than the floor, and with the cause of ctx if
// that ends.
func (m *Manager) Join(ctx context.Context, o TenantOptions) (*Tenant, error) {
	if err := m.admissible(&o); err != nil {
		return nil, err
	}
	u, err := newTenant(m.opened(), o)
	if err != nil {
		return nil, err
	}
	j := &joining{tenant: u, done: make(chan struct{})}
	m.mu.Lock()
	err = m.enlist(j)
	waits := slices.Contains(m.joining, j)
	m.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, u.endStreams())
	}
	if waits && o.Waiting != nil {
		o.Waiting()
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		m.giveUp(j, context.Cause(ctx))
	}
	if j.err != nil {
		return nil, errors.Join(fmt.Errorf("%s waits for device memory: %w", u.title(), j.err), u.endStreams())
	}
	return &Tenant{Manager: m, tenant: u}, nil
}

// giveUp ends the waiting of j, unless it has ended meanwhile.
func (m *Manager) giveUp(j *joining, cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.joining, j); i >= 0 {
		m.joining = slices.Delete(m.joining, i, i+1)
		j.err = cause
		m.admit() // those behind it may fit
	}
}

// admissible refuses floors that never fit.
func (m *Manager) admissible(o *TenantOptions) error {
	if len(o.Floors) > len(m.devs) || len(o.Peaks) > len(m.devs) {
		return fmt.Errorf("%w: %d floors and %d peaks for %d devices: give one for each device", ErrMismatch, len(o.Floors), len(o.Peaks), len(m.devs))
	}
	for i, floor := range o.Floors {
		if d := &m.devs[i]; floor > d.spec.MemoryBytes {
			has, needs := units.TwoBytes(d.spec.MemoryBytes, floor)
			return fmt.Errorf("%w: %s has %s, and at least %s are needed there: raise the device's memory, use smaller microbatches or more devices", ErrBudget, d.id, has, needs)
		}
	}
	return nil
}

// enlist lets j wait, or join at once.
func (m *Manager) enlist(j *joining) error {
	same := func(u *tenant) bool { return u.opt.Name == j.tenant.opt.Name }
	switch {
	case m.closed:
		return fmt.Errorf("join: %w", ErrClosed)
	case slices.ContainsFunc(m.tenants, same), slices.ContainsFunc(m.joining, func(o *joining) bool { return same(o.tenant) }):
		return fmt.Errorf("%w: there is a tenant %q already: give this one another name", ErrMismatch, j.tenant.opt.Name)
	}
	m.joining = append(m.joining, j)
	m.admit()
	return nil
}
