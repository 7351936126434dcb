package residency

import (
	"context"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/admission"
	"github.com/berth-ml/berth/residency/hostmem"
)

// pause is an attempt's answer that it cannot succeed yet. It names the thing to wait for,
// without the lock, before the attempt is made again.
type pause struct {
	kind pauseKind
	t    *Tensor // forStore: the tensor to read; forWriter: the tensor that is leased
	d    int     // forStore: for which device
}

type pauseKind uint8

const (
	none      pauseKind = iota
	forTurn             // until a lease ends, or an earlier call is served
	forWriter           // until the lease that writes a tensor ends
	forStore            // until the tensor is read from its store
	again               // for nothing
)

// claim is the lease that a call asks for. The zero claim is that of a call that
// asks for none.
type claim struct {
	needs  []Need
	stream device.Stream
}

// retry makes attempts, each when it is the call's turn, until one succeeds or
// fails, or ctx ends. It holds the lock during an attempt and gives it up to wait
// between two.
func (m *Manager) retry(ctx context.Context, c claim, attempt func() (pause, error)) (err error) {
	var w *admission.Waiter[Need]
	defer func() {
		if w != nil {
			m.line.Leave(w)
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := pause{kind: forTurn}
		if !m.line.Behind(w, c.needs) || m.holds(c.stream) {
			if p, err = attempt(); err != nil || p.kind == none {
				return err
			}
		}
		if w == nil {
			w = m.join(c, p)
		}
		if err := m.waitUnlocked(ctx, p, w); err != nil {
			return err
		}
	}
}

// join puts a call in the line that must wait for a lease to end. Others may wait
// for a lease of its own stream: then it goes before them.
func (m *Manager) join(c claim, p pause) *admission.Waiter[Need] {
	switch p.kind {
	case forTurn:
		return m.line.Join(c.needs, m.holds(c.stream))
	case forWriter:
		return m.line.Join([]Need{{p.t, anywhere, Read}}, false)
	}
	return nil
}

// anywhere is the device of a need that takes no device's memory.
const anywhere = -1

// overlap reports whether two needs have a tensor in common, or memory of the same
// device.
func overlap(a, b *Need) bool {
	return a.Tensor == b.Tensor || a.Device == b.Device && a.Device != anywhere
}

// holds reports whether a stream has a lease.
func (m *Manager) holds(s device.Stream) bool {
	return slices.ContainsFunc(m.leases, func(l *Lease) bool { return l.stream == s })
}

// waitUnlocked gives up the lock, waits for p, and takes the lock again. w is the
// caller in the line.
func (m *Manager) waitUnlocked(ctx context.Context, p pause, w *admission.Waiter[Need]) error {
	m.mu.Unlock()
	defer m.mu.Lock()
	switch p.kind {
	case forTurn, forWriter:
		select {
		case <-w.Turn():
		case <-ctx.Done():
			return ctx.Err()
		}
	case forStore:
		began := time.Now()
		err := m.streamIn(ctx, p.t, p.d)
		if f := p.t.tenant.opt.OnRead; f != nil {
			f(p.d, began, time.Now())
		}
		return err
	}
	return nil
}

// ended waits on the host until e has succeeded or failed. Its error is ctx's.
func ended(ctx context.Context, e device.Event) error {
	if e.Wait(ctx) != nil && !e.Done() {
		return ctx.Err()
	}
	return nil
}

// await blocks until a pinned block has its contents. Its error is the reason for
// which they are not right, or ctx's.
func await(ctx context.Context, h *hostmem.Block) error {
	if err := h.Ready.Wait(ctx); err != nil && !h.Ready.Done() {
		return err
	}
	return h.Failure()
}

// writable blocks until the host may write a block that nobody else knows yet. Its
// error is ctx's.
func writable(ctx context.Context, h *hostmem.Block) error {
	for _, e := range h.Uses() {
		if err := ended(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
