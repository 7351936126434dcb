package residency

import (
	"cmp"
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// Host copies the host's bytes of t to new memory, aligned for the elements. It never
// transfers: it fails with ErrStale if the bytes are not current, or were spilled and
// not pulled back, and waits for a pull-back that is under way.
// hosttensor.Over(t.Meta(), bytes) makes them a tensor of gorgonia, without a copy.
func (m *Manager) Host(t *Tensor) ([]byte, error) {
	out := shape.Bytes(make([]int64, (t.bytes+7)/8))[:t.bytes]
	if err := m.View(t, func(b []byte) error { copy(out, b); return nil }); err != nil {
		return nil, err
	}
	return out, nil
}

// View calls f with the host's bytes of t, without copying them. It fails with
// ErrStale like Host. f must neither change nor keep them, and does not see later
// writes to t by other goroutines.
func (m *Manager) View(t *Tensor, f func(b []byte) error) error {
	m.mu.Lock()
	if !t.hostCurrent() || t.host.Private {
		defer m.mu.Unlock()
		return cmp.Or(t.lost(), fmt.Errorf("%s is at %s: %w: pull it back first", t.name, m.where(t.truth), ErrStale))
	}
	h := t.host
	h.Pin()
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.host.Unpin(h)
		m.mu.Unlock()
	}()
	if err := await(context.Background(), h); err != nil {
		return fmt.Errorf("copy-out of %s: %w", t.name, err)
	}
	return f(h.Bytes())
}

// EnsureHost is PullBack and then Host.
func (m *Manager) EnsureHost(ctx context.Context, r ledger.Reason, t *Tensor) ([]byte, error) {
	if err := m.PullBack(ctx, r, t); err != nil {
		return nil, err
	}
	return m.Host(t)
}
