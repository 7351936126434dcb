package residency

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

// Salvage calls f with the bytes of t on its device, or on the host, even where
// the task that was to write them failed or was skipped: a skipped task leaves
// the bytes from before. It fails if t is not Intact. It is for finding the cause of a
// failure, and for saving. The copy
// counts as a pull-back for debug, and no seal stops it, since the run has failed
// already. It blocks until queued writes of t have ended. f must not keep the
// bytes.
func (m *Manager) Salvage(ctx context.Context, t *Tensor, f func(b []byte) error) error {
	err := m.salvageTo(ctx, t, true, f)
	if err != nil {
		return fmt.Errorf("salvage %s: %w", t.name, err)
	}
	return nil
}

// Peek is Salvage for showing values: t need not be Intact, so that what an op has written that failed, since it is not
// finite, is shown, too.
func (m *Manager) Peek(ctx context.Context, t *Tensor, f func(b []byte) error) error {
	err := m.salvageTo(ctx, t, false, f)
	if err != nil {
		return fmt.Errorf("reading %s: %w", t.name, err)
	}
	return nil
}

// salvageTo is Salvage, or Peek unless the bytes must be intact.
func (m *Manager) salvageTo(ctx context.Context, t *Tensor, intact bool, f func(b []byte) error) error {
	h, err := m.salvage(ctx, t)
	if err != nil {
		return err
	}
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.host.Unpin(h)
	}()
	if err := h.Ready.Wait(ctx); err != nil { // the tasks that wrote it may have failed
		return err
	}
	if err := t.undamaged(h.Carriers()); intact && err != nil {
		return err
	}
	return f(h.Bytes())
}

// salvage gets the host's bytes of t, pinned, or queues a copy that nobody else
// uses.
func (m *Manager) salvage(ctx context.Context, t *Tensor) (h *hostmem.Block, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err = m.retry(ctx, claim{}, func() (pause, error) {
		switch {
		case t.tenant.gone:
			return pause{}, ErrClosed
		case t.truth == nowhere:
			return pause{}, fmt.Errorf("it is at %s: %w", m.where(t.truth), ErrStale)
		case t.truth == inStore && !t.hostCurrent():
			return pause{kind: forStore, t: t}, nil
		case t.lost() != nil:
			return pause{}, t.lost()
		case !t.onDevice():
			h = t.host
			h.Pin()
			return pause{}, nil
		case t.beingWritten():
			return pause{}, fmt.Errorf("%w for writing on %s: release it first", ErrLeased, m.devs[t.truth].id)
		}
		var err error
		if h, err = m.toNew(t, out{kind: ledger.PullBack, reason: ledger.Debug, cause: "salvage", salvage: true}); err == nil {
			h.Pin()
			m.host.Drop(h) // once it is not pinned
		}
		return pause{}, err
	})
	return h, err
}

// carriers lists the copies that carried the contents of t since a task wrote them
// first, as far as they are not known to have ended well.
func (t *Tensor) carriers() device.Fence {
	switch {
	case t.onDevice():
		return t.copies[t.truth].Carriers()
	case t.host != nil:
		return t.host.Carriers()
	}
	return nil
}

// Intact fails if what Salvage gives for t may differ from what the last successful writer
// of t left: a copy of these contents has failed since. It blocks until all such copies
// have ended.
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
