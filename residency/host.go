package residency

import (
	"context"
	"errors"
	"fmt"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hosttensor"
)

// hostMem is a tensor's bytes on the host.
type hostMem struct {
	buf      device.HostBuffer
	version  uint64       // of the contents
	ready    device.Event // of the copy-out that fills it
	uses     fence        // queued copies from and to it
	pins     int          // readers on the host
	fed      bool         // the caller's, not ours to free
	staged   bool         // lost once copied in: a store keeps it, or the truth moved in
	streamed bool         // from a store, not copied in yet
	bytes    int64
}

// newHost makes a record around buf, which may be the caller's.
func (m *Manager) newHost(buf device.HostBuffer, bytes int64, fed bool) *hostMem {
	var h *hostMem
	if n := len(m.spare); n > 0 {
		h, m.spare = m.spare[n-1], m.spare[:n-1]
	} else {
		h = new(hostMem)
	}
	*h = hostMem{buf: buf, bytes: bytes, fed: fed, uses: h.uses[:0]}
	return h
}

// allocHost gets host memory that device d copies fastest from and to.
func (m *Manager) allocHost(t *Tensor, d int) (*hostMem, error) {
	b, err := m.places[d].dev.AllocHost(t.bytes)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of host memory for %s: %w", t.bytes, t.name, err)
	}
	return m.newHost(b, t.bytes, false), nil
}

// loseHost gives the host's bytes of t back, once queued copies of them and
// readers on the host are done.
func (m *Manager) loseHost(t *Tensor) {
	if t.host != nil {
		m.graves = append(m.graves, t.host)
		t.host = nil
		m.sweepHost()
	}
}

// sweepHost frees the host memory that nobody uses any more.
func (m *Manager) sweepHost() {
	kept := m.graves[:0]
	for _, h := range m.graves {
		if h.pins > 0 || !h.uses.done() {
			kept = append(kept, h)
			continue
		}
		m.freeHost(h)
	}
	clear(m.graves[len(kept):])
	m.graves = kept
}

// freeHost frees h now and keeps its record.
func (m *Manager) freeHost(h *hostMem) {
	if h.staged {
		m.staged -= h.bytes
	}
	if !h.fed {
		if err := h.buf.Free(); err != nil {
			m.freeErr = errors.Join(m.freeErr, fmt.Errorf("free host memory: %w", err))
		}
	}
	h.buf = nil
	m.spare = append(m.spare, h)
}

// Fill makes a copy of data the contents of t; the truth is then on the host.
// data has as many bytes as t's metadata says and stays the caller's.
func (m *Manager) Fill(t *Tensor, data []byte) error {
	if int64(len(data)) != t.bytes {
		return fmt.Errorf("fill %s: %w: %d bytes given, %v has %d", t.name, ErrMismatch, len(data), t.meta, t.bytes)
	}
	return m.FillWith(t, func(dst []byte) error {
		copy(dst, data)
		return nil
	})
}

// FillWith makes what write leaves in dst the contents of t; the truth is then
// on the host. dst comes zeroed, and what write does not touch of it takes no
// memory there; an error of write leaves t as it was.
func (m *Manager) FillWith(t *Tensor, write func(dst []byte) error) error {
	buf, err := m.places[0].dev.AllocHost(t.bytes)
	if err != nil {
		return fmt.Errorf("fill %s: %w", t.name, err)
	}
	if err := write(buf.Bytes()); err != nil {
		return errors.Join(fmt.Errorf("fill %s: %w", t.name, err), buf.Free())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refill(t, "fill"); err != nil {
		return errors.Join(err, buf.Free())
	}
	m.recycleStale(t, "stale")
	t.host = m.newHost(buf, t.bytes, false)
	t.host.version = t.version
	return nil
}

// Feed makes the bytes of hb the contents of t, for inputs: the truth is then
// in the caller's buffer until t is fed again or dropped. hb must not change
// until FeedDone says so. The next Acquire or Prefetch copies it in, to a
// fresh device buffer if the previous contents are still in use.
func (m *Manager) Feed(t *Tensor, hb device.HostBuffer) error {
	if n := int64(len(hb.Bytes())); n != t.bytes {
		return fmt.Errorf("feed %s: %w: %d bytes given, %v has %d", t.name, ErrMismatch, n, t.meta, t.bytes)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refill(t, "feed"); err != nil {
		return err
	}
	t.host = m.newHost(hb, t.bytes, true)
	t.host.version = t.version
	return nil
}

// refill readies t for new contents on the host.
func (m *Manager) refill(t *Tensor, what string) error {
	if m.closed {
		return fmt.Errorf("%s %s: %w", what, t.name, ErrClosed)
	}
	for d := range t.copies {
		if t.copies[d].writing {
			return fmt.Errorf("%s %s: %w for writing on %s: release it first", what, t.name, ErrLeased, m.places[d].id)
		}
	}
	m.loseHost(t)
	t.src = nil
	t.version++
	t.truth = onHost
	return nil
}

// FeedDone hands the buffer last fed to t back: after the event it may be
// refilled, and the manager will not read it again; the truth is with the
// device that has it. It is false while the buffer holds the only contents;
// acquire or prefetch t first, or drop it. Ask before feeding t again.
func (m *Manager) FeedDone(t *Tensor) (device.Event, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.host == nil || !t.host.fed {
		return t.fedDone, true
	}
	for d := range t.copies {
		if t.current(&t.copies[d]) {
			t.truth = d
			m.loseHost(t)
			return t.fedDone, true
		}
	}
	return device.Event{}, false
}

// Host is a copy of the contents of t, if the host's bytes are current;
// otherwise ErrStale: it never transfers. A scalar is a tensor of one element.
// It waits for a spill or pull-back of t that is under way.
func (m *Manager) Host(t *Tensor) (*tensor.Dense, error) {
	dense, err := hosttensor.New(t.meta)
	if err != nil {
		return nil, fmt.Errorf("host tensor of %s: %w", t.name, err)
	}
	_, to, err := hosttensor.Bytes(dense)
	if err != nil {
		return nil, fmt.Errorf("host tensor of %s: %w", t.name, err)
	}
	if err := m.View(t, func(b []byte) error { copy(to, b); return nil }); err != nil {
		return nil, err
	}
	return dense, nil
}

// View calls f with the host's bytes of t, without copying them, if they are
// current; otherwise it fails with ErrStale. f must neither change nor keep
// them; other goroutines may go on meanwhile, and what they write to t does
// not show.
func (m *Manager) View(t *Tensor, f func(b []byte) error) error {
	m.mu.Lock()
	if !t.hostCurrent() {
		defer m.mu.Unlock()
		return fmt.Errorf("%s is at %s: %w: pull it back first", t.name, m.placeName(t.truth), ErrStale)
	}
	h := t.host
	h.pins++
	ready := h.ready
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		h.pins--
		m.sweepHost()
		m.mu.Unlock()
	}()
	if err := ready.Wait(context.Background()); err != nil {
		return fmt.Errorf("copy-out of %s: %w", t.name, err)
	}
	return f(h.buf.Bytes())
}

// EnsureHost is PullBack and then Host: for callers who want the contents
// wherever they are.
func (m *Manager) EnsureHost(ctx context.Context, r Reason, t *Tensor) (*tensor.Dense, error) {
	if err := m.PullBack(ctx, r, t); err != nil {
		return nil, err
	}
	return m.Host(t)
}
