package host

import (
	"fmt"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// state is a buffer's stage of life.
type state uint8

const (
	live state = iota
	deleted
	donated
)

// buffer is a block of a device's heap. Handles are not reused, so a second
// Delete cannot hit the buffer that got the memory next.
type buffer struct {
	heap  *heap
	meta  shape.Meta
	usage device.Usage
	block
	data []byte // nil if memory is only counted

	// contents numbers the contents: each write gives another number. 0 means
	// that nothing was written yet.
	contents atomic.Uint64

	// The rest is under heap.mu.
	state      state
	pending    int          // queued operations that use it
	mark       uint64       // by which a launch finds a buffer that is passed twice
	ready      device.Event // of the last queued write
	packed     *packed      // packed copies of the contents
	prev, next *buffer      // in the heap's list
}

// Device is the device that the buffer is on.
func (b *buffer) Device() device.ID { return b.heap.id }

// Meta is the metadata of the contents.
func (b *buffer) Meta() shape.Meta { return b.meta }

// Usage is the usage for which it was allocated.
func (b *buffer) Usage() device.Usage { return b.usage }

// Ready is the event of the last queued write.
func (b *buffer) Ready() device.Event {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	return b.ready
}

// Delete gives the memory back: now, or when the last queued operation that
// uses it has ended.
func (b *buffer) Delete() error {
	h := b.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	b.state = deleted
	if b.pending == 0 {
		h.free(b)
	}
	return nil
}

// check fails unless the buffer may be used. It needs heap.mu.
func (b *buffer) check() error {
	switch b.state {
	case deleted:
		return fmt.Errorf("%s: %s buffer %v: %w", b.heap.id, b.usage, b.meta, device.ErrDeleted)
	case donated:
		return fmt.Errorf("%s: %s buffer %v: %w: use the output that took it over", b.heap.id, b.usage, b.meta, device.ErrDonated)
	}
	return nil
}

// wrote gives the contents a new number. Call it before the write's event
// happens, so that work which waits for the event finds the number.
func (b *buffer) wrote() { b.contents.Store(b.heap.writes.Add(1)) }

// pin keeps the memory until unpin, through a queued operation. If that writes
// the contents, written is its event; otherwise the zero event.
func (b *buffer) pin(written device.Event) error {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	b.pending++
	if written.Queue != nil {
		b.ready = written
	}
	return nil
}

// unpin ends one operation's use.
func (b *buffer) unpin() {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	b.unpinLocked()
}

// unpinLocked is unpin for callers with heap.mu.
func (b *buffer) unpinLocked() {
	b.pending--
	if b.pending < 0 {
		panic("BUG: a buffer was unpinned more often than pinned")
	}
	if b.pending > 0 {
		return
	}
	if b.state != live {
		b.heap.free(b)
	}
	if b.heap.closed {
		b.heap.idle.Broadcast()
	}
}

// own is the heap's own buffer behind a handle.
func (h *heap) own(b device.Buffer) (*buffer, error) {
	own, ok := b.(*buffer)
	if !ok || own == nil {
		return nil, fmt.Errorf("buffer is nil or of another kind of device")
	}
	if own.heap != h {
		return nil, fmt.Errorf("buffer is on %s: copy it to %s first", own.heap.id, h.id)
	}
	return own, nil
}
