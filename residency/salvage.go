package residency

import (
	"context"
	"fmt"
)

// Salvage calls f with the bytes of t on its device, or on the host, even where
// the task that was to write them failed or was skipped: a skipped task leaves
// the bytes from before. It is for finding the cause of a failure. The copy
// counts as a pull-back for debug, and no seal stops it, since the run has failed
// already. It blocks until queued writes of t have ended. f must not keep the
// bytes.
func (m *Manager) Salvage(ctx context.Context, t *Tensor, f func(b []byte) error) error {
	m.mu.Lock()
	for t.onDevice() && !t.copies[t.truth].ready.Done() {
		err := m.waitUnlocked(ctx, pause{kind: forEvent, event: t.copies[t.truth].ready}, nil)
		if err != nil {
			m.mu.Unlock()
			return fmt.Errorf("salvage %s: %w", t.name, err)
		}
	}
	if !t.onDevice() {
		stored := t.truth == inStore
		m.mu.Unlock()
		if stored {
			if err := m.PullBack(ctx, Debug, t); err != nil {
				return err
			}
		}
		return m.View(t, f)
	}
	h, err := m.salvage(t)
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("salvage %s: %w", t.name, err)
	}
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.host.drop(h)
	}()
	if err := h.ready.Wait(ctx); err != nil {
		return fmt.Errorf("salvage %s: %w", t.name, err)
	}
	return f(h.buf.Bytes())
}

// salvage queues the copy.
func (m *Manager) salvage(t *Tensor) (*hostMem, error) {
	d := &m.devs[t.truth]
	if t.tenant.gone {
		return nil, ErrClosed
	}
	if d.copy(t).writing {
		return nil, fmt.Errorf("%w for writing on %s: release it first", ErrLeased, d.id)
	}
	return m.toNew(t, out{kind: PullBack, reason: Debug, cause: "salvage", salvage: true})
}
