package host

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// state is where a buffer is in its life.
type state uint8

const (
	live state = iota
	deleted
	donated
)

// buffer is a block of a device's arena. Handles are not reused, so that a
// second Delete is told from the Delete of whoever got the memory next.
type buffer struct {
	dev   *Device
	meta  shape.Meta
	usage device.Usage
	off   int64
	size  int64
	data  []byte // nil where memory is only counted

	// written names the contents: it is another number after each write, and 0
	// before the first.
	written atomic.Uint64

	// The rest is under dev.mu.
	state      state
	pending    int          // queued operations that touch it
	mark       uint64       // scratch for Launch, to find a buffer passed twice
	ready      device.Event // of the last queued write
	kept       *kept        // what kernels keep of the contents
	prev, next *buffer      // in dev's list of buffers
}

// Device is where the buffer lives.
func (b *buffer) Device() device.ID { return b.dev.spec.ID }

// Meta is what it holds.
func (b *buffer) Meta() shape.Meta { return b.meta }

// Usage is what it was allocated for.
func (b *buffer) Usage() device.Usage { return b.usage }

// Ready is the event of the last queued write.
func (b *buffer) Ready() device.Event {
	b.dev.mu.Lock()
	defer b.dev.mu.Unlock()
	return b.ready
}

// Delete gives the memory back, now or when the last queued operation that
// touches it has ended.
func (b *buffer) Delete() error {
	d := b.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	b.state = deleted
	if b.pending == 0 {
		d.free(b)
	}
	return nil
}

// check fails unless the buffer may be used. It needs dev.mu.
func (b *buffer) check() error {
	switch b.state {
	case deleted:
		return fmt.Errorf("%s: %s buffer %v: %w", b.dev.spec.ID, b.usage, b.meta, device.ErrDeleted)
	case donated:
		return fmt.Errorf("%s: %s buffer %v: %w: use the output that took it over", b.dev.spec.ID, b.usage, b.meta, device.ErrDonated)
	}
	return nil
}

// wrote says that the contents are new. Whatever waits for the write finds them
// so.
func (b *buffer) wrote() { b.written.Store(b.dev.writes.Add(1)) }

// unpin ends one operation's use. It needs dev.mu.
func (b *buffer) unpin() {
	b.pending--
	if b.pending < 0 {
		panic("BUG: a buffer was unpinned more often than pinned")
	}
	if b.pending > 0 {
		return
	}
	if b.state != live {
		b.dev.free(b)
	}
	if b.dev.closed {
		b.dev.idle.Broadcast()
	}
}

// hostBuffer is a mapping of its own, page-aligned.
type hostBuffer struct {
	dev  *Device
	data []byte // as long as asked for; shorter than the mapping

	mu         sync.Mutex
	mapped     []byte
	pending    int
	freed      bool
	prev, next *hostBuffer // in dev's list, under dev.mu
}

// Bytes is the memory, nil once freed.
func (h *hostBuffer) Bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freed {
		return nil
	}
	return h.data
}

// Free gives the memory back, now or when the last queued copy has ended.
func (h *hostBuffer) Free() error {
	h.mu.Lock()
	if h.freed {
		h.mu.Unlock()
		return fmt.Errorf("%s: host buffer of %d bytes: %w", h.dev.spec.ID, len(h.data), device.ErrDeleted)
	}
	h.freed = true
	err := h.unmapIfUnused()
	h.mu.Unlock()
	h.dev.forgetHost(h)
	return err
}

// pin keeps the memory through a queued copy.
func (h *hostBuffer) pin() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freed {
		return fmt.Errorf("%s: host buffer of %d bytes: %w", h.dev.spec.ID, len(h.data), device.ErrDeleted)
	}
	h.pending++
	return nil
}

// unpin ends a copy's use.
func (h *hostBuffer) unpin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending--
	if err := h.unmapIfUnused(); err != nil {
		panic(fmt.Sprintf("BUG: unmapping a host buffer: %v", err))
	}
}

// unmapIfUnused needs h.mu.
func (h *hostBuffer) unmapIfUnused() error {
	if !h.freed || h.pending > 0 || h.mapped == nil {
		return nil
	}
	mapped := h.mapped
	h.mapped = nil
	return unmap(mapped)
}
