package residency

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
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

// leaveEarly evicts what the plan of the step has leave with the attempt's launch. A device's own policy has no plan.
func (a *attempt) leaveEarly() error {
	p, d := a.planned()
	if p == nil || d.evictor != nil {
		return nil
	}
	leaves, _ := p.planned()
	for _, object := range leaves {
		if t := a.tenant.order.uses.tensors[d.index][object]; d.copy(t).object > 0 && d.copy(t).buf != nil && !d.copy(t).locked() {
			if err := a.m.evict(d, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadEarly queues copies of the tensors that the plan of the step has come with the attempt's launch, so that they move while
// it runs. For memory, it evicts only tensors that are used later than they.
func (a *attempt) loadEarly() error {
	p, d := a.planned()
	if p == nil {
		return nil
	}
	_, loads := p.planned()
	for _, object := range loads {
		t := a.tenant.order.uses.tensors[d.index][object]
		if d.copy(t).buf != nil || t.truth == nowhere || t.beingWritten() || a.m.mustStream(t, d) {
			continue
		}
		if distance, reads := p.next(object + 1); reads {
			if err := a.loadOne(t, d, p.spare(), distance); err != nil {
				return err
			}
		}
	}
	return nil
}

// planned is the attempt's place in the known order of uses, and the device there; nil if it has none.
func (a *attempt) planned() (*place, *devState) {
	if a.launch < 0 || len(a.needs) == 0 {
		return nil, nil
	}
	d := &a.m.devs[a.needs[0].Device]
	return &a.tenant.on[d.index].place, d
}

// loadOne queues the copy of one tensor that is used in so many launches, if there is room.
func (a *attempt) loadOne(t *Tensor, d *devState, spare int64, distance int) error {
	m := a.m
	if ok, err := m.makeRoom(d, d.takes(t.bytes)+spare, distance); err != nil || !ok {
		return err
	}
	s, err := m.copier(t, d)
	if err != nil {
		return err
	}
	b, err := a.alloc(d, s, t.meta, t.usage)
	if errors.Is(err, device.ErrOutOfMemory) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s on %s: %w", t.name, d.id, err)
	}
	d.attach(t, b, s)
	d.copy(t).used = m.clock
	if err := m.bring(t, d, "ahead"); err != nil {
		d.free(t, "not loaded")
		return err
	}
	return nil
}
