package residency

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

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
	u.acted = m.clock
	m.host.Tick(m.clock)
	a := attempt{m: m, tenant: u.tenant, s: s, queue: s.Record().Queue, needs: needs, scratch: scratch, lease: l, call: m.clock, notes: m.takeNotes()}
	defer func() { m.spare = append(m.spare, a.notes) }()
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
	if a.tenant.gone {
		return pause{}, fmt.Errorf("acquire: %w", ErrClosed)
	}
	m.host.Sweep()
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

// takeNotes gets notes for an attempt, which puts them back in m.spare.
func (m *Manager) takeNotes() *notes {
	last := len(m.spare) - 1
	if last < 0 {
		return new(notes)
	}
	n := m.spare[last]
	m.spare = m.spare[:last]
	return n
}
