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
// with ErrBudget if a device has less than the floor, with ErrOccupied in place of
// waiting with o.AtOnce, and with the cause of ctx if that ends.
func (m *Manager) Join(ctx context.Context, o TenantOptions) (*Tenant, error) {
	if err := m.admissible(&o); err != nil {
		return nil, err
	}
	if err := m.claimName(o.Name); err != nil {
		return nil, err
	}
	u, err := m.reserve(ctx, o)
	if err != nil {
		m.freeName(o.Name)
		return nil, err
	}
	return &Tenant{Manager: m, tenant: u}, nil
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

// claimName makes a name that of a tenant, or of one that waits to join.
func (m *Manager) claimName(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return fmt.Errorf("join: %w", ErrClosed)
	case m.names[name]:
		return fmt.Errorf("%w: there is a tenant %q already: give this one another name", ErrMismatch, name)
	}
	m.names[name] = true
	return nil
}

// freeName undoes claimName.
func (m *Manager) freeName(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, name)
}

// reserve waits for a tenant's floors. Then it opens the tenant's streams, and adds
// the tenant.
func (m *Manager) reserve(ctx context.Context, o TenantOptions) (*tenant, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	waits := o.Waiting
	if o.AtOnce {
		waits = func() { giveUp(ErrOccupied) }
	}
	if err := m.floors.Reserve(ctx, o.Floors, waits); err != nil {
		return nil, fmt.Errorf("%s waits for device memory: %w", title(o.Name), err)
	}
	u, err := m.openTenant(o)
	if err != nil {
		m.floors.Release(o.Floors)
		return nil, err
	}
	return u, nil
}

// openTenant adds a tenant whose floors are reserved. Close waits for it, and so
// finds all streams.
func (m *Manager) openTenant(o TenantOptions) (*tenant, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, fmt.Errorf("join: %w", ErrClosed)
	}
	m.opening.Add(1)
	defer m.opening.Done()
	m.mu.Unlock()
	u, err := newTenant(m.opened(), o)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.tenants = append(m.tenants, u)
	m.tighten()
	m.mu.Unlock()
	if err := m.resizeFile(); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.tenants = slices.DeleteFunc(m.tenants, func(o *tenant) bool { return o == u })
		return nil, errors.Join(err, u.endStreams())
	}
	return u, nil
}

// tighten finds the devices that the peaks of all tenants exceed. The tensors of
// each may leave them from now on, and come back later.
func (m *Manager) tighten() {
	for i := range m.devs {
		if m.peaks(i) > m.devs[i].spec.MemoryBytes {
			for _, u := range m.tenants {
				u.seal.tight[i] = true
			}
		}
	}
}

// Lose tells that a device was given up: calls of Join that wait for its memory, and
// later ones, fail with the cause.
func (m *Manager) Lose(device int, cause error) { m.floors.Lose(device, cause) }
