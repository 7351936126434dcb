package residency

import (
	"context"
	"fmt"
)

// PullBack makes the host's bytes of the tensors current: it queues the copies
// of all, then waits for them. Bytes that are current already do not move and
// count as a hit. The device stays the truth; the host's copy is clean until
// the next write.
func (m *Manager) PullBack(ctx context.Context, r Reason, ts ...*Tensor) error {
	if _, ok := reasonIndex(r); !ok || r == "" {
		return fmt.Errorf("pull-back: %q is no reason: use one of %v", r, Reasons())
	}
	events := make([]filled, len(ts))
	if err := m.queuePulls(ctx, r, ts, events); err != nil {
		return err
	}
	for i, f := range events {
		if err := f.Wait(ctx); err != nil {
			m.lost(ts[i], f)
			return fmt.Errorf("pull-back (%s) of %s: %w", r, ts[i].name, err)
		}
	}
	return nil
}

// queuePulls queues the copies of tensors and notes their events.
func (m *Manager) queuePulls(ctx context.Context, r Reason, ts []*Tensor, ready []filled) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.sweep()
	for i, t := range ts {
		if err := m.retry(ctx, claim{}, func() (pause, error) { return m.pull(t, r, &ready[i]) }); err != nil {
			return err
		}
	}
	return nil
}

// pull queues the copy of one tensor, or pauses.
func (m *Manager) pull(t *Tensor, r Reason, ready *filled) (pause, error) {
	switch {
	case t.tenant.gone:
		return pause{}, fmt.Errorf("pull-back of %s: %w", t.name, ErrClosed)
	case t.truth == nowhere:
		return pause{}, fmt.Errorf("pull-back of %s: %w: fill, feed or write it first", t.name, ErrUndefined)
	case t.hostCurrent():
		t.tenant.ledger.add(entry{kind: Hit, reason: r, t: t, device: max(t.truth, 0), from: "host", to: "host", cause: "pull-back"})
	case t.truth == inStore:
		return pause{kind: forStore, t: t}, nil
	case t.beingWritten():
		return pause{kind: forWriter, t: t}, nil
	default:
		if err := m.toHost(t, out{kind: PullBack, reason: r, cause: string(r)}); err != nil {
			return pause{}, err
		}
	}
	*ready = t.host.ready
	return pause{}, nil
}

// lost drops the host's bytes of t if f, the copy-out that was to fill them, has
// failed and the truth is on a device.
func (m *Manager) lost(t *Tensor, f filled) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.copied.Done() && t.onDevice() && t.host != nil && t.host.ready == f {
		m.dropHost(t)
	}
}
