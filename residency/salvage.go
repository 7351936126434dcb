package residency

import (
	"context"
	"fmt"
)

// Salvage hands f the bytes that a device, or the host, holds of t, even where
// the task that was to write them failed or was skipped: a skipped task leaves
// what was there before. It is for finding out what went wrong after a
// failure; the pull-back counts under the reason debug. It blocks until
// everything queued on t has ended. f must not keep the bytes.
func (m *Manager) Salvage(ctx context.Context, t *Tensor, f func(b []byte) error) error {
	m.mu.Lock()
	if t.truth < 0 {
		m.mu.Unlock()
		return m.View(t, f)
	}
	p, c := &m.places[t.truth], &t.copies[t.truth]
	buf, ready := c.buf, c.ready
	m.ledger.add(entry{kind: PullBack, reason: Debug, t: t, device: t.truth, from: p.id, to: "host", cause: "salvage"})
	m.mu.Unlock()
	if err := ended(ctx, ready); err != nil {
		return err
	}
	to, err := p.dev.AllocHost(t.bytes)
	if err != nil {
		return fmt.Errorf("salvage %s: %w", t.name, err)
	}
	defer to.Free()
	done, err := p.out.CopyOut(to, buf)
	if err == nil {
		err = done.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("salvage %s: %w", t.name, err)
	}
	return f(to.Bytes())
}
