package residency

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
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
		err := m.waitUnlocked(ctx, pause{kind: forEvent, event: t.copies[t.truth].ready})
		if err != nil {
			m.mu.Unlock()
			return fmt.Errorf("salvage %s: %w", t.name, err)
		}
	}
	if !t.onDevice() {
		m.mu.Unlock()
		return m.View(t, f)
	}
	h, done, err := m.salvage(t)
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("salvage %s: %w", t.name, err)
	}
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.host.drop(h)
	}()
	if err := done.Wait(ctx); err != nil {
		return fmt.Errorf("salvage %s: %w", t.name, err)
	}
	return f(h.buf.Bytes())
}

// salvage queues the copy even if the task that wrote t failed.
func (m *Manager) salvage(t *Tensor) (*hostMem, device.Event, error) {
	d := &m.devs[t.truth]
	c := d.copy(t)
	if m.closed {
		return nil, device.Event{}, ErrClosed
	}
	if c.writing {
		return nil, device.Event{}, fmt.Errorf("%w for writing on %s: release it first", ErrLeased, d.id)
	}
	h, err := m.host.alloc(d.dev, t.bytes, t.name)
	if err != nil {
		return nil, device.Event{}, err
	}
	done, err := d.out.CopyOut(h.buf, c.buf)
	if err != nil {
		m.host.free(h)
		return nil, device.Event{}, err
	}
	c.readers.Add(done)
	h.uses.Add(done)
	m.ledger.add(entry{kind: PullBack, reason: Debug, t: t, device: d.index, from: d.id, to: "host", cause: "salvage"})
	return h, done, nil
}
