package streams

import (
	"fmt"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
	"github.com/berth-ml/berth/engine/shape"
)

// state is a buffer's stage of life.
type state uint8

const (
	live state = iota
	deleted
	donated
)

// buffer is a handle of memory in a device's heap. Queued work refers to the
// handle, also after the memory was given back.
type buffer struct {
	heap  *heap
	meta  shape.Meta
	usage device.Usage
	off   int64 // of its memory, until the handle is retired

	// contents numbers the contents: each write gives another number. 0 means
	// that nothing was written yet.
	contents atomic.Uint64

	// The rest is under heap.mu.
	block      *memory.Block // nil once given back
	state      state
	born       device.Event // the place in the queue for which it was allocated
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

// Free gives the memory back.
func (b *buffer) Free(after ...device.Event) error {
	h := b.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	b.state = deleted
	h.give(b, after)
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

// pin keeps the handle until unpin, through a queued operation. If that writes
// the contents, written is its event; otherwise the zero event.
func (b *buffer) pin(written device.Event) error {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	if err := b.check(); err != nil {
		return err
	}
	b.pinLocked()
	if written.Queue != nil {
		b.ready = written
	}
	return nil
}

// pinLocked is pin for callers with heap.mu that have checked the buffer.
func (b *buffer) pinLocked() {
	b.pending++
	b.heap.pins++
}

// unpin ends one operation's use.
func (b *buffer) unpin() {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	b.unpinLocked()
}

// unpinLocked is unpin for callers with heap.mu.
func (b *buffer) unpinLocked() {
	h := b.heap
	b.pending--
	h.pins--
	if b.pending < 0 {
		panic("BUG: a buffer was unpinned more often than pinned")
	}
	if b.pending == 0 && b.state != live {
		h.retire(b)
	}
	if h.closed && h.pins == 0 {
		h.idle.Broadcast()
	}
}

// Bytes implements [device.Shared].
func (b *buffer) Bytes() []byte {
	if m, ok := b.heap.memory.(Addressed); ok {
		return m.Bytes(b.off, b.meta.Bytes())
	}
	return nil
}

// Keep implements [device.Shared].
func (b *buffer) Keep(written device.Event) error { return b.pin(written) }

// Wrote implements [device.Shared].
func (b *buffer) Wrote() { b.wrote() }

// Leave implements [device.Shared].
func (b *buffer) Leave() { b.unpin() }

// bornAt records the place in the queue from which on the buffer may be used.
func (b *buffer) bornAt(e device.Event) {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	b.born = e
}

// repeated records the event of a write that is queued again. A later write that was
// queued meanwhile is still the last one.
func (b *buffer) repeated(failed, again device.Event) {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	if b.state == live && b.ready == failed {
		b.ready = again
	}
}

// bornOn is the place in the queue from which on the buffer may be used.
func (b *buffer) bornOn() device.Event {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	return b.born
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

// retired is a heap's handles for reuse. A handle rests for a while first, so that a
// second Free soon after the first is still found out.
type retired struct {
	first, last *buffer // linked by next
	count       int
}

// restingHandles is the number of handles that rest.
const restingHandles = 64

// put adds a handle.
func (r *retired) put(b *buffer) {
	if b.next = nil; r.last != nil {
		r.last.next = b
	} else {
		r.first = b
	}
	r.last = b
	r.count++
}

// get is the handle that has rested longest, or a new one.
func (r *retired) get() *buffer {
	if r.count <= restingHandles {
		slab := make([]buffer, restingHandles)
		for i := range slab {
			r.put(&slab[i])
		}
	}
	b := r.first
	r.first, b.next = b.next, nil
	r.count--
	return b
}
