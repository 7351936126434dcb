package residency

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

// PullBack makes the host's bytes of the tensors current: it queues the copies
// of all, then waits for them. Bytes that are current already do not move and
// count as a hit. The device stays the truth; the host's copy is clean until
// the next write.
func (m *Manager) PullBack(ctx context.Context, r ledger.Reason, ts ...*Tensor) error {
	if !r.Known() {
		return fmt.Errorf("pull-back: %q is no reason: use one of %v", r, ledger.Reasons())
	}
	pulled := make([]*hostmem.Block, len(ts)) // pinned
	err := m.queuePulls(ctx, r, ts, pulled)
	for i, h := range pulled {
		if err != nil || h == nil {
			continue
		}
		if err = await(ctx, h); err != nil {
			err = fmt.Errorf("pull-back (%s) of %s: %w", r, ts[i].name, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, h := range pulled {
		if h == nil {
			continue
		}
		m.host.Unpin(h)
		m.forgetHost(ts[i])
	}
	return err
}

// queuePulls queues the copies of tensors to the host, and pins them.
func (m *Manager) queuePulls(ctx context.Context, r ledger.Reason, ts []*Tensor, pulled []*hostmem.Block) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.Sweep()
	for i, t := range ts {
		if err := m.retry(ctx, claim{}, func() (pause, error) { return m.pull(t, r) }); err != nil {
			return err
		}
		pulled[i] = t.host
		t.host.Pin()
	}
	return nil
}

// pull queues the copy of one tensor, or pauses.
func (m *Manager) pull(t *Tensor, r ledger.Reason) (pause, error) {
	m.forgetHost(t)
	switch {
	case t.tenant.gone:
		return pause{}, fmt.Errorf("pull-back of %s: %w", t.name, ErrClosed)
	case t.truth == nowhere:
		return pause{}, fmt.Errorf("pull-back of %s: %w: fill, feed or write it first", t.name, ErrUndefined)
	case t.hostCurrent():
		if err := m.hit(t, r, "pull-back"); err != nil {
			return pause{}, err
		}
		t.host.Private = false
	case t.truth == inStore:
		return pause{kind: forStore, t: t}, nil
	case t.beingWritten():
		return pause{kind: forWriter, t: t}, nil
	default:
		if err := m.toHost(t, out{kind: ledger.PullBack, reason: r, cause: string(r)}); err != nil {
			return pause{}, err
		}
	}
	return pause{}, nil
}

// hit answers a pull-back with the bytes that the host has. Private ones need the
// same permission as a copy, so that a pull-back does not depend on what was spilled.
func (m *Manager) hit(t *Tensor, r ledger.Reason, cause string) error {
	if t.host.Private {
		if err := t.tenant.seal.pull(&t.identity, r, cause); err != nil {
			return err
		}
	}
	t.note(max(t.truth, 0), ledger.Row{Kind: ledger.Hit, Reason: r, From: "host", To: "host", Cause: cause})
	return nil
}

// forgetHost drops the host's bytes of t if their copy has failed and the truth is
// elsewhere.
func (m *Manager) forgetHost(t *Tensor) {
	if h := t.host; h != nil && t.truth != onHost && h.Ready.Err() != nil {
		m.dropHost(t)
	}
}
