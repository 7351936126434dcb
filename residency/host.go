package residency

import (
	"cmp"
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
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
	if err := t.changeable(); err != nil {
		return fmt.Errorf("%s %s: %w", action, t.name, err)
	}
	for _, d := range t.tenant.used {
		if t.copies[d].writing {
			return fmt.Errorf("%s %s: %w for writing on %s: release it first", action, t.name, ErrLeased, m.devs[d].id)
		}
	}
	m.dropHost(t)
	t.renew(onHost)
	m.freeStale(t, "stale")
	return nil
}

// FeedDone hands the buffer last fed to t back: after the event it may be
// refilled, and the manager will not read it again; a device
// then has the current contents. The result is false while the only contents are in the buffer,
// such as after a copy-in that has failed; acquire or prefetch t first, or drop it. Ask before feeding t again.
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

// Host copies the host's bytes of t to new memory, aligned for the elements. It never
// transfers: it fails with ErrStale if the bytes are not current, or were spilled and
// not pulled back, and waits for a pull-back that is under way.
// hosttensor.Over(t.Meta(), bytes) makes them a tensor of gorgonia, without a copy.
func (m *Manager) Host(t *Tensor) ([]byte, error) {
	out := shape.Bytes(make([]int64, (t.bytes+7)/8))[:t.bytes]
	if err := m.View(t, func(b []byte) error { copy(out, b); return nil }); err != nil {
		return nil, err
	}
	return out, nil
}

// View calls f with the host's bytes of t, without copying them. It fails with
// ErrStale like Host. f must neither change nor keep them, and does not see later
// writes to t by other goroutines.
func (m *Manager) View(t *Tensor, f func(b []byte) error) error {
	m.mu.Lock()
	if !t.hostCurrent() || t.host.Private {
		defer m.mu.Unlock()
		return cmp.Or(t.lost(), fmt.Errorf("%w: the newest contents of %s are at %s: pull it back first", ErrStale, t.name, m.where(t.truth)))
	}
	h := t.host
	h.Pin()
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.host.Unpin(h)
		m.mu.Unlock()
	}()
	if err := await(context.Background(), h); err != nil {
		return fmt.Errorf("copy-out of %s: %w", t.name, err)
	}
	return f(h.Bytes())
}

// PullBack makes the host's bytes of the tensors current: it queues the copies
// of all, then waits for them. Bytes that are current already do not move and
// count as a hit. The device stays the truth; the host's copy is clean until
// the next write.
func (m *Manager) PullBack(ctx context.Context, r ledger.Reason, ts ...*Tensor) error {
	if !r.Known() {
		return fmt.Errorf("pull-back: %q is not a known reason: use one of %v", r, ledger.Reasons())
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
		if err := m.retry(ctx, claim{}, func() (pause, error) { return m.pull(t, r, m.toHost) }); err != nil {
			return err
		}
		pulled[i] = t.host
		t.host.Pin()
	}
	return nil
}

// PullInto is PullBack of one tensor to the caller's own memory, such as a device has allocated: bytes that are on a device
// are copied there at once. dst has exactly the bytes of t's metadata, and nobody else uses it until PullInto returns.
// ctx ends the wait for room and for writers, not the copy.
func (m *Manager) PullInto(ctx context.Context, r ledger.Reason, t *Tensor, dst device.HostBuffer) error {
	if !r.Known() {
		return fmt.Errorf("pull-back: %q is not a known reason: use one of %v", r, ledger.Reasons())
	}
	if n := int64(len(dst.Bytes())); n != t.bytes {
		return fmt.Errorf("pull-back of %s: %w: got %d bytes, but %v has %d: give exactly as many", t.name, ErrMismatch, n, t.meta, t.bytes)
	}
	var h *hostmem.Block // pinned; nil where the host has the bytes
	m.mu.Lock()
	m.host.Sweep()
	err := m.retry(ctx, claim{}, func() (pause, error) {
		return m.pull(t, r, func(t *Tensor, o out) error {
			b := m.host.Lend(dst, t.bytes)
			if err := m.copyOut(t, b, o); err != nil {
				m.host.Drop(b)
				return err
			}
			b.Pin()
			m.host.Drop(b) // once it is not pinned
			h = b
			return nil
		})
	})
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if h == nil {
		return m.View(t, func(b []byte) error { copy(dst.Bytes(), b); return nil })
	}
	err = await(context.Background(), h)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.Unpin(h)
	if err != nil {
		return fmt.Errorf("pull-back (%s) of %s: %w", r, t.name, err)
	}
	return nil
}

// pull queues the copy of one tensor by toHost, or pauses.
func (m *Manager) pull(t *Tensor, r ledger.Reason, toHost func(*Tensor, out) error) (pause, error) {
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
		if err := toHost(t, out{kind: ledger.PullBack, reason: r, cause: string(r)}); err != nil {
			return pause{}, err
		}
	}
	return pause{}, nil
}

// hit answers a pull-back with the bytes that the host has. Private ones need the
// same permission as a copy, so that a pull-back does not depend on what was spilled.
func (m *Manager) hit(t *Tensor, r ledger.Reason, cause string) error {
	if t.host.Private {
		if err := t.tenant.seal.pull(t, r, cause); err != nil {
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

// HostMemory measures the host memory of tensors.
func (m *Manager) HostMemory() hostmem.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host.Usage()
}

// HoldHost counts host memory that the caller has until ReleaseHost. It takes room in
// the file for the tensors that give way to it. It fails with ErrHostMemory where the
// bound does not allow it, and with hostfile.ErrNoRoom where the disk is full.
func (m *Manager) HoldHost(bytes int64) error {
	m.mu.Lock()
	err := m.host.Hold(bytes)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if err := m.resizeFile(); err != nil {
		m.ReleaseHost(bytes)
		return err
	}
	return nil
}

// ReleaseHost undoes HoldHost.
func (m *Manager) ReleaseHost(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.Release(bytes)
}

// resizeFile gives the file of host memory the size that its tenants need.
func (m *Manager) resizeFile() error {
	m.room.Lock()
	defer m.room.Unlock()
	m.mu.Lock()
	var held int64
	for _, u := range m.tenants {
		held += u.opt.HeldBytes
	}
	m.host.KeepFree(held)
	f, bytes := m.host.File(m.onHost())
	m.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.Resize(bytes)
}

// onHost bounds the bytes that all tenants have on the host at once. Each may need some by
// itself. Together they may need more: where their peaks exceed a device's memory, all of
// these peaks may be on the host. largest is the bytes of the largest tensor.
func (m *Manager) onHost() (bytes, largest int64) {
	var alone, together int64
	for _, u := range m.tenants {
		alone += u.opt.HostBytes
		largest = max(largest, u.opt.LargestBytes)
	}
	for i := range m.devs {
		if peaks := m.peaks(i); peaks > m.devs[i].spec.MemoryBytes {
			together += peaks
		}
	}
	return max(alone, together), largest
}
