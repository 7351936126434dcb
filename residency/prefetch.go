package residency

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/residency/hostmem"
)

// Prefetch queues copies for needs to come, such as the batch of the next step
// while this one computes. It copies only what fits without evicting anything.
// It takes no lease, waits for no memory, and skips tensors that are being
// written. Tensors from a store are read before it returns.
func (m *Manager) Prefetch(ctx context.Context, needs []Need) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range needs {
		err := m.retry(ctx, claim{}, func() (pause, error) {
			if n.Tensor.tenant.gone {
				return pause{}, fmt.Errorf("prefetch: %w", ErrClosed)
			}
			return m.prefetch(n)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// MoveIn is Prefetch for contents that the host need not keep: the truth moves
// to the device, and the host's bytes are freed when they have been copied; if
// that fails, they are the truth again. It returns before that, but waits while more than
// ManagerOptions.StagingBytes are on their way. A tensor that found no room
// stays on the host.
func (m *Manager) MoveIn(ctx context.Context, needs []Need) error {
	if err := m.Prefetch(ctx, needs); err != nil {
		return err
	}
	m.mu.Lock()
	for _, n := range needs {
		t := n.Tensor
		if t.truth != onHost || t.host.Lent() || !t.current(n.copy()) {
			continue
		}
		h := t.host
		t.truth = n.Device
		m.host.Move(h, n.copy().Ready, func() (*hostmem.Block, bool) { return t.takeBack(h) })
		m.dropHost(t)
	}
	m.mu.Unlock()
	return m.awaitStaging(ctx, 0)
}

// AwaitMoves waits until the host's bytes of all tensors that MoveIn moved are
// given back.
func (m *Manager) AwaitMoves(ctx context.Context) error {
	return m.awaitStaging(ctx, m.host.StagingLimit())
}

// prefetch queues the copies of one need. It pauses if a store must be read
// first.
func (m *Manager) prefetch(n Need) (pause, error) {
	t, d, c := n.Tensor, &m.devs[n.Device], n.copy()
	if !n.Mode.reads() || c.buf != nil || t.beingWritten() {
		return pause{}, nil
	}
	if t.truth == nowhere {
		return pause{}, fmt.Errorf("prefetch of %s to %s: %w: fill, feed or write it first", t.name, d.id, ErrUndefined)
	}
	s, err := m.copier(t, d)
	if err != nil {
		return pause{}, err
	}
	b, err := s.Alloc(t.meta, t.usage)
	if errors.Is(err, device.ErrOutOfMemory) {
		return pause{}, nil
	}
	if err != nil {
		return pause{}, fmt.Errorf("prefetch of %s to %s: %w", t.name, d.id, err)
	}
	d.attach(t, b, s)
	if m.mustStream(t, d) {
		d.free(t, "not prefetched")
		return pause{kind: forStore, t: t, d: d.index}, nil
	}
	c.used = m.clock
	if err := m.bring(t, d, "prefetch"); err != nil {
		d.free(t, "not prefetched")
		return pause{}, err
	}
	return pause{}, nil
}

// fetchAhead queues copies of the tensors that the next launches of the step read,
// so that they move while the attempt's task runs. For memory, it evicts only
// tensors that none of these launches uses.
func (a *attempt) fetchAhead() error {
	if a.launch < 0 {
		return nil
	}
	d := &a.m.devs[a.needs[0].Device]
	p, tensors := &a.tenant.on[d.index].place, a.tenant.order.uses.tensors[d.index]
	for number, distance := range p.reads {
		t := tensors[number-1]
		if d.copy(t).buf != nil || t.truth == nowhere || t.beingWritten() || a.m.mustStream(t, d) {
			continue
		}
		if next, _ := p.next(number); next != distance {
			continue // a launch before that overwrites it
		}
		if ok, err := a.fetchOne(t, d, p.uses.policy); err != nil || !ok {
			return err
		}
	}
	return nil
}

// fetchOne queues the copy of one tensor. It reports false if there is no room.
func (a *attempt) fetchOne(t *Tensor, d *devState, p paging.Policy) (bool, error) {
	m := a.m
	if ok, err := m.makeRoom(d, d.takes(t.bytes)+p.Spare, p.Ahead); err != nil || !ok {
		return false, err
	}
	s, err := m.copier(t, d)
	if err != nil {
		return false, err
	}
	b, err := a.alloc(d, s, t.meta, t.usage)
	if errors.Is(err, device.ErrOutOfMemory) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s on %s: %w", t.name, d.id, err)
	}
	d.attach(t, b, s)
	d.copy(t).used = m.clock
	if err := m.bring(t, d, "ahead"); err != nil {
		d.free(t, "not fetched")
		return false, err
	}
	return true, nil
}
