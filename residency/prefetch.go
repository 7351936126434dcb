package residency

import (
	"context"
	"fmt"
)

// Prefetch queues copies for needs to come, such as the batch of the next step
// while this one computes. It copies only what fits without evicting anything.
// It takes no lease, waits for no memory, and skips tensors that are being
// written. Tensors from a store are read before it returns.
func (m *Manager) Prefetch(ctx context.Context, needs []Need) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range needs {
		err := m.retry(ctx, func() (pause, error) {
			if m.closed {
				return pause{}, fmt.Errorf("prefetch: %w", ErrClosed)
			}
			return m.prefetch(n)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// MoveIn is Prefetch for contents that the host need not keep: the truth moves
// to the device, and the host's bytes are given back when they have been
// copied. It returns before that, but waits while more than
// ManagerOptions.StagingBytes are on their way. A tensor that found no room
// stays on the host.
func (m *Manager) MoveIn(ctx context.Context, needs []Need) error {
	if err := m.Prefetch(ctx, needs); err != nil {
		return err
	}
	m.mu.Lock()
	for _, n := range needs {
		t := n.Tensor
		if t.truth != onHost || t.host.fed || !t.current(n.copy()) {
			continue
		}
		t.truth = n.Device
		m.host.stage(t.host)
		m.dropHost(t)
	}
	m.mu.Unlock()
	return m.awaitStaging(ctx, 0)
}

// prefetch queues the copies of one need. It pauses if a store must be read
// first.
func (m *Manager) prefetch(n Need) (pause, error) {
	t, d, c := n.Tensor, &m.devs[n.Device], n.copy()
	if !n.Mode.reads() || t.current(c) || c.leased > 0 || t.beingWritten() {
		return pause{}, nil
	}
	if t.truth == nowhere {
		return pause{}, fmt.Errorf("prefetch of %s to %s: %w: fill, feed or write it first", t.name, d.id, ErrUndefined)
	}
	if c.busy() || c.buf == nil {
		if !d.pool.idle(t.class) && !d.freeIdle(t.bytes) {
			return pause{}, nil // perhaps the old contents are in use, and no room for both
		}
		d.recycle(t, "stale")
	}
	if m.mustStream(t, d) {
		return pause{kind: forStore, t: t, d: d.index}, nil
	}
	if c.buf == nil {
		ok, err := d.tryRoom(t)
		if err != nil {
			return pause{}, fmt.Errorf("prefetch of %s to %s: %w", t.name, d.id, err)
		}
		if !ok {
			return pause{}, nil
		}
		c.used = m.clock
	}
	return pause{}, m.bring(t, d, "prefetch")
}
