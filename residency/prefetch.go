package residency

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// Prefetch queues the copies that reading the needs will take, as far as there
// is room without giving anything up: the batch of the next step, while this
// one computes. It takes no lease, waits for no memory, and passes over what
// is being written. What streams from a store is read before it returns.
func (m *Manager) Prefetch(ctx context.Context, needs []Need) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range needs {
		for {
			if m.closed {
				return fmt.Errorf("prefetch: %w", ErrClosed)
			}
			p, err := m.prefetch(needs[i])
			if err != nil {
				return err
			}
			if p.kind == none {
				break
			}
			if err := m.sitOut(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// MoveIn is Prefetch for contents that the host need not keep: the truth moves
// to the device, and the host's bytes are given back when they have been
// copied. It returns before that, but waits while more than
// ManagerOptions.StagingBytes are on their way. What found no room stays on the host.
func (m *Manager) MoveIn(ctx context.Context, needs []Need) error {
	if err := m.Prefetch(ctx, needs); err != nil {
		return err
	}
	m.mu.Lock()
	for _, n := range needs {
		t := n.Tensor
		if t.truth != onHost || t.host.fed || !t.current(&t.copies[n.Device]) {
			continue
		}
		t.truth = n.Device
		t.host.staged = true
		m.staged += t.host.bytes
		m.loseHost(t)
	}
	m.mu.Unlock()
	return m.awaitStaging(ctx, 0)
}

// prefetch does it for one need, or says what to read first.
func (m *Manager) prefetch(n Need) (pause, error) {
	t, d := n.Tensor, n.Device
	p, c := &m.places[d], &t.copies[d]
	if n.Mode&Read == 0 || t.current(c) || c.leased > 0 || t.truth >= 0 && t.copies[t.truth].writing {
		return pause{}, nil
	}
	if t.truth == nowhere {
		return pause{}, fmt.Errorf("prefetch of %s to %s: %w: fill, feed or write it first", t.name, p.id, ErrUndefined)
	}
	if c.busy() || c.buf == nil {
		if !p.pool.idle(t.sort) && !m.roomy(p, t.bytes) {
			return pause{}, nil // perhaps the old contents are in use, and no room for both
		}
		m.recycle(t, d, "stale")
	}
	if t.truth == inStore && !t.hostCurrent() && m.peerSource(t, d) < 0 {
		return pause{kind: forStore, stage: t, d: d}, nil
	}
	if c.buf == nil {
		if ok, err := m.blank(t, d); !ok {
			return pause{}, err
		}
		c.used = m.clock
	}
	return pause{}, m.bring(t, d, "prefetch")
}

// blank gets t a buffer on device d that nothing uses, if there is memory.
func (m *Manager) blank(t *Tensor, d int) (bool, error) {
	p := &m.places[d]
	if m.take(t, d, nil, false) {
		return true, nil
	}
	b, err := p.dev.Alloc(t.meta, t.usage)
	for errors.Is(err, device.ErrOutOfMemory) && m.drain(p, true) {
		b, err = p.dev.Alloc(t.meta, t.usage)
	}
	if errors.Is(err, device.ErrOutOfMemory) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("prefetch of %s to %s: %w", t.name, p.id, err)
	}
	m.hold(t, d, b)
	p.pool.grow(p.used + p.pending)
	return true, nil
}

// roomy reports whether bytes more fit, once what has ended is forgotten and
// pooled buffers are deleted.
func (m *Manager) roomy(p *place, bytes int64) bool {
	if p.fits(bytes) {
		return true
	}
	p.sweep()
	m.yield(p, bytes, true)
	return p.fits(bytes)
}
