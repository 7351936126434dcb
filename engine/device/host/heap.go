package host

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// heap is a device's memory: its arena, its buffers and the counts of both.
type heap struct {
	id     device.ID
	kind   string        // of the device
	budget int64         // bytes
	writes atomic.Uint64 // how often any buffer was written

	mu      sync.Mutex
	idle    sync.Cond // on mu: after closing, the last queued use of a buffer has ended
	evicted sync.Cond // on mu: a kernel that ended gave up the packed copy it ran with
	closed  bool      // the device is closing or closed
	arena   *arena
	stats   device.Stats // without launches and compilations
	buffers *buffer      // the first of the list of all buffers
	mark    uint64       // the last mark that a launch put on buffers
}

// newHeap makes the heap of a device, with mapped memory or with memory that is
// only counted.
func newHeap(s device.Spec, mapped bool) (*heap, error) {
	a, err := newArena(s.MemoryBytes, mapped)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.ID, err)
	}
	h := &heap{id: s.ID, kind: s.Kind, budget: s.MemoryBytes, arena: a}
	h.idle.L, h.evicted.L = &h.mu, &h.mu
	return h, nil
}

// errClosed is the failure of a call to a closed device.
func (h *heap) errClosed() error { return fmt.Errorf("%s: %w", h.id, device.ErrClosed) }

// alloc makes a buffer with undefined contents.
func (h *heap) alloc(m shape.Meta, use device.Usage) (*buffer, error) {
	if err := m.Shape.Validate(); err != nil || m.DType.Size() == 0 || int(use) >= device.NumUsages {
		return nil, fmt.Errorf("%s: cannot allocate %v (%v)", h.id, m, err)
	}
	b := &buffer{heap: h, meta: m, usage: use, block: block{size: m.Bytes()}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, h.errClosed()
	}
	var err error
	if b.off, err = h.reserve(b.size, use); err != nil {
		return nil, fmt.Errorf("%w, for a %s buffer %v", err, use, m)
	}
	if h.closed { // while reserve waited
		h.unreserve(b.block, use)
		return nil, h.errClosed()
	}
	b.data = h.arena.bytes(b.off, b.size)
	h.stats.Allocs++
	if b.next = h.buffers; b.next != nil {
		b.next.prev = b
	}
	h.buffers = b
	return b, nil
}

// free takes a buffer out of the heap. It needs mu.
func (h *heap) free(b *buffer) {
	h.unreserve(b.block, b.usage)
	for c := b.packed; c != nil; c = c.next {
		if c.stored {
			h.release(c)
		}
	}
	b.data, b.packed = nil, nil
	if b.prev == nil {
		h.buffers = b.next
	} else {
		b.prev.next = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	}
	b.prev, b.next = nil, nil
}

// reserve takes a block and counts it. If there is no room it evicts packed
// copies. It needs mu, which it gives up while it waits for a kernel; it does
// not wait if the caller keeps kernels from running.
func (h *heap) reserve(n int64, use device.Usage) (off int64, err error) {
	off, ok := h.tryReserve(n, use)
	for !ok && h.evict(n) {
		off, ok = h.tryReserve(n, use)
	}
	if !ok {
		s := &h.stats
		return 0, fmt.Errorf("%s: %w: needed %d bytes, used %d, free %d of a budget of %d: use smaller microbatches, more devices or a larger budget",
			h.id, device.ErrOutOfMemory, n, s.Live, h.budget-s.Live, h.budget)
	}
	return off, nil
}

// tryReserve takes a block and counts it, if there is room. It needs mu.
func (h *heap) tryReserve(n int64, use device.Usage) (off int64, ok bool) {
	s := &h.stats
	if s.Live+n > h.budget {
		return 0, false
	}
	if off, ok = h.arena.take(n); !ok {
		return 0, false
	}
	s.Live += n
	s.LiveBy[use] += n
	s.Peak = max(s.Peak, s.Live)
	s.PeakBy[use] = max(s.PeakBy[use], s.LiveBy[use])
	return off, true
}

// unreserve gives a block back. It needs mu.
func (h *heap) unreserve(b block, use device.Usage) {
	h.arena.give(b.off, b.size)
	h.stats.Live -= b.size
	h.stats.LiveBy[use] -= b.size
}

// freeAll frees the buffers that are left, once the last copy between devices
// that uses one has ended. Its error names them.
func (h *heap) freeAll() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.busy() {
		h.idle.Wait()
	}
	var leaks []string
	var bytes int64
	for b := h.buffers; b != nil; b = h.buffers {
		leaks, bytes = append(leaks, fmt.Sprintf("%s %v", b.usage, b.meta)), bytes+b.size
		b.state = deleted
		h.free(b)
	}
	if leaks == nil {
		return nil
	}
	return fmt.Errorf("%s: %d buffers with %d bytes were not deleted: %s", h.id, len(leaks), bytes, some(leaks))
}

// busy tells whether queued work uses a buffer. It needs mu.
func (h *heap) busy() bool {
	for b := h.buffers; b != nil; b = b.next {
		if b.pending > 0 {
			return true
		}
	}
	return false
}

// some joins the first few of a list.
func some(list []string) string {
	const most = 8
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
