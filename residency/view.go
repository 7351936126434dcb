package residency

import (
	"context"
	"fmt"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/hosttensor"
)

// Host is a copy of the contents of t, if the host's bytes are current;
// otherwise ErrStale: it never transfers. A scalar is a tensor of one element.
// It waits for a spill or pull-back of t that is under way.
func (m *Manager) Host(t *Tensor) (*tensor.Dense, error) {
	dense, err := hosttensor.New(t.meta)
	if err != nil {
		return nil, fmt.Errorf("host tensor of %s: %w", t.name, err)
	}
	_, to, err := hosttensor.Bytes(dense)
	if err != nil {
		return nil, fmt.Errorf("host tensor of %s: %w", t.name, err)
	}
	if err := m.View(t, func(b []byte) error { copy(to, b); return nil }); err != nil {
		return nil, err
	}
	return dense, nil
}

// View calls f with the host's bytes of t, without copying them, if they are
// current; otherwise it fails with ErrStale. f must neither change nor keep
// them. Other goroutines may go on meanwhile; f does not see what they write to
// t.
func (m *Manager) View(t *Tensor, f func(b []byte) error) error {
	m.mu.Lock()
	if !t.hostCurrent() {
		defer m.mu.Unlock()
		return fmt.Errorf("%s is at %s: %w: pull it back first", t.name, m.where(t.truth), ErrStale)
	}
	h := t.host
	h.pins++
	ready := h.ready
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		h.pins--
		m.host.sweep()
		m.mu.Unlock()
	}()
	if err := ready.Wait(context.Background()); err != nil {
		return fmt.Errorf("copy-out of %s: %w", t.name, err)
	}
	return f(h.buf.Bytes())
}

// EnsureHost is PullBack and then Host: for callers who want the contents
// wherever they are.
func (m *Manager) EnsureHost(ctx context.Context, r Reason, t *Tensor) (*tensor.Dense, error) {
	if err := m.PullBack(ctx, r, t); err != nil {
		return nil, err
	}
	return m.Host(t)
}
