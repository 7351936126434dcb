package residency

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// Fill makes a copy of data the contents of t; the truth is then on the host.
// data must have exactly the bytes of t's metadata. It stays the caller's.
func (m *Manager) Fill(t *Tensor, data []byte) error {
	if int64(len(data)) != t.bytes {
		return fmt.Errorf("fill %s: %w: got %d bytes, but %v has %d: give exactly as many", t.name, ErrMismatch, len(data), t.meta, t.bytes)
	}
	return m.FillWith(t, func(dst []byte) error {
		copy(dst, data)
		return nil
	})
}

// FillWith calls write to make the contents of t in dst; the truth is then on the
// host. dst is not zeroed: write writes all of it. If write fails, t stays as it
// was.
func (m *Manager) FillWith(t *Tensor, write func(dst []byte) error) error {
	m.mu.Lock()
	h, err := m.host.Alloc(t.tenant.home(), t.bytes, t.name)
	if err != nil {
		m.mu.Unlock()
		return fmt.Errorf("fill %s: %w", t.name, err)
	}
	h.Pin()
	m.mu.Unlock()
	failure := writable(context.Background(), h)
	if failure == nil {
		failure = write(h.Bytes())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.Unpin(h)
	if failure != nil {
		m.host.Free(h)
		return fmt.Errorf("fill %s: %w", t.name, failure)
	}
	if err := m.refill(t, "fill"); err != nil {
		m.host.Free(h)
		return err
	}
	t.host = h
	t.host.Version = t.version
	return nil
}

// Feed makes the bytes of hb the contents of t, for inputs: the truth is then
// in the caller's buffer until t is fed again or dropped. hb must not change
// until FeedDone says so. The next Acquire or Prefetch copies it in. The copies of
// the previous contents are freed.
func (m *Manager) Feed(t *Tensor, hb device.HostBuffer) error {
	if n := int64(len(hb.Bytes())); n != t.bytes {
		return fmt.Errorf("feed %s: %w: got %d bytes, but %v has %d: give exactly as many", t.name, ErrMismatch, n, t.meta, t.bytes)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refill(t, "feed"); err != nil {
		return err
	}
	t.host = m.host.Lend(hb, t.bytes)
	t.host.Version = t.version
	return nil
}

// refill readies t for new contents on the host.
func (m *Manager) refill(t *Tensor, action string) error {
	if t.tenant.gone {
		return fmt.Errorf("%s %s: %w", action, t.name, ErrClosed)
	}
	for _, d := range t.tenant.used {
		if t.copies[d].writing {
			return fmt.Errorf("%s %s: %w for writing on %s: release it first", action, t.name, ErrLeased, m.devs[d].id)
		}
	}
	m.dropHost(t)
	t.src = nil
	t.version++
	t.truth = onHost
	t.discarded = false
	m.freeStale(t, "stale")
	return nil
}

// FeedDone hands the buffer last fed to t back: after the event it may be
// refilled, and the manager will not read it again; the truth is with the
// device that has it. It is false while the only contents are in the buffer, such as
// after a copy-in that has failed; acquire or prefetch t first, or drop it. Ask before feeding t again.
func (m *Manager) FeedDone(t *Tensor) (device.Event, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.host == nil || !t.host.Lent() {
		return t.fedDone, true
	}
	for _, d := range t.tenant.used {
		if t.sound(&t.copies[d]) {
			t.truth = d
			m.dropHost(t)
			return t.fedDone, true
		}
	}
	return device.Event{}, false
}
