package residency

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// A task that fails, or is skipped, leaves the contents from before. A copy that
// fails leaves other bytes. So the contents from before are still there if the copies
// that carried them since then went well, whatever became of the tasks.

// carriers lists the copies that carried the contents of t since a task wrote them
// first, as far as they are not known to have ended well.
func (t *Tensor) carriers() device.Fence {
	switch {
	case t.onDevice():
		c := &t.copies[t.truth]
		list := slices.Clone(c.carried)
		addCarrier(&list, c.moved)
		return list
	case t.host != nil:
		return slices.Clone(t.host.Carried)
	}
	return nil
}

// Intact is nil if the contents of t, as Salvage gives them, are those that the newest
// task left that wrote t and ended well. Otherwise a copy has failed that carried them
// since then. It blocks until these copies have ended.
func (m *Manager) Intact(ctx context.Context, t *Tensor) error {
	m.mu.Lock()
	copies, truth := t.carriers(), t.truth
	m.mu.Unlock()
	if truth == nowhere {
		return fmt.Errorf("%s: %w", t.name, ErrUndefined)
	}
	for _, e := range copies {
		if err := ended(ctx, e); err != nil {
			return err
		}
	}
	return t.undamaged(copies)
}

// undamaged is the failure of a copy that carried the contents; nil if all went well.
func (t *Tensor) undamaged(copies device.Fence) error {
	for _, e := range copies {
		if err := e.Err(); err != nil {
			return &CopyError{fmt.Errorf("%s: %w: a copy of it failed: %w", t.name, ErrLost, err)}
		}
	}
	return nil
}
