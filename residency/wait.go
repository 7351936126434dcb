package residency

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
)

// pause names the thing to wait for, without the lock, before an attempt is made
// again.
type pause struct {
	kind  pauseKind
	event device.Event // forEvent
	t     *Tensor      // forStore: the tensor to read
	d     int          // forStore: for which device
}

type pauseKind uint8

const (
	none pauseKind = iota
	forEvent
	forRelease
	forStore
	forNothing // try again at once
)

// retry makes attempts until one succeeds or fails, or ctx ends. It holds the lock
// during an attempt and gives it up to wait between two.
func (m *Manager) retry(ctx context.Context, attempt func() (pause, error)) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := attempt()
		if err != nil || p.kind == none {
			return err
		}
		if err := m.waitUnlocked(ctx, p); err != nil {
			return err
		}
	}
}

// waitUnlocked gives up the lock, waits for p, and takes the lock again.
func (m *Manager) waitUnlocked(ctx context.Context, p pause) error {
	if p.kind == forRelease && m.freed == nil {
		m.freed = make(chan struct{})
	}
	freed := m.freed
	m.mu.Unlock()
	defer m.mu.Lock()
	switch p.kind {
	case forEvent:
		return ended(ctx, p.event)
	case forRelease:
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	case forStore:
		return m.streamIn(ctx, p.t, p.d)
	}
	return nil
}

// wake wakes all goroutines that wait for a lease to end.
func (m *Manager) wake() {
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}
