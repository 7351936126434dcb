package streams

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// alignment of every block, in bytes: a cache line, and the widest vector.
const alignment = device.MemoryUnit

// heap is a device's memory, shared out to buffers, and the counts of both. The device owns it.
type heap struct {
	id     device.ID
	kind   string        // of the device
	writes atomic.Uint64 // how often any buffer was written
	ctx    context.Context
	leave  context.CancelFunc // ends ctx, when the device is given up or closed

	mu         sync.Mutex
	idle       sync.Cond // on mu: after closing, the last queued use of a buffer has ended
	closed     bool      // the device is closing or closed
	lost       error     // the cause for which the device was given up; nil otherwise
	space      *memory.Space
	size       int64         // of the device's memory, in bytes
	memory     Memory        // nil if memory is only counted
	guestSpace *memory.Space // the memory from its end on, for packed copies
	guests     []*packed     // the packed copies with memory
	stats      device.Stats  // without launches and compilations
	buffers    *buffer       // the first of the list of live buffers
	pins       int           // uses of buffers by queued operations
	mark       uint64        // the last mark that a launch put on buffers
	retired    retired       // handles for reuse
}

// newHeap makes the heap of a device.
func newHeap(s device.Spec, m Memory) *heap {
	h := &heap{id: s.ID, kind: s.Kind, memory: m, size: s.MemoryBytes,
		space: memory.New(s.MemoryBytes, alignment), guestSpace: memory.New(s.MemoryBytes, alignment)}
	h.idle.L = &h.mu
	h.ctx, h.leave = context.WithCancel(context.Background())
	return h
}

// back makes a range of the memory usable, and reports whether the system has it.
// It needs mu.
func (h *heap) back(off, size int64) bool { return h.memory == nil || h.memory.Back(off, size) }

// close gives the memory back. It needs mu.
func (h *heap) close() error {
	if h.memory == nil {
		return nil
	}
	return h.memory.Close()
}

// errClosed is the failure of a call to a closed device.
func (h *heap) errClosed() error { return fmt.Errorf("%s: %w", h.id, device.ErrClosed) }

// refusal is the failure of a call to a device that is closed or given up; nil
// while it can be used. It needs mu.
func (h *heap) refusal() error {
	if h.closed {
		return h.errClosed()
	}
	return h.lost
}

// givenUp is the cause for which the device was given up; nil if it was not.
func (h *heap) givenUp() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// alloc makes a buffer with undefined contents. now is the last event of the queue that will
// use it. The buffer may take memory that other queues still work on, so alloc adds their
// events to after: the queue must wait for those before it uses the buffer.
func (h *heap) alloc(m shape.Meta, use device.Usage, now device.Event, after *device.Fence) (*buffer, error) {
	if err := m.Shape.Validate(); err != nil || m.DType.Size() == 0 || int(use) >= device.NumUsages {
		return nil, fmt.Errorf("%s: cannot allocate %v (%v)", h.id, m, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refusal(); err != nil {
		return nil, err
	}
	block, uses, ok := h.space.Take(m.Bytes(), now.Queue)
	if !ok {
		return nil, &device.OutOfMemoryError{Device: h.id, Meta: m, Usage: use, Needed: (m.Bytes() + alignment - 1) / alignment * alignment, Used: h.stats.Live, Largest: h.space.Largest(), Budget: h.size}
	}
	for _, e := range uses {
		after.Add(e)
	}
	if !h.back(block.Off, block.Size) {
		after.Add(now)
		h.space.Give(block, *after...)
		return nil, fmt.Errorf("%s: %w: the system has no %s left", h.id, device.ErrOutOfMemory, units.Bytes(block.Size))
	}
	h.dislodge(block, now.Queue, after)
	b := h.retired.get()
	b.heap, b.meta, b.usage, b.block, b.state = h, m, use, block, live
	b.off, block.Owner = block.Off, b
	h.count(b, block.Size)
	h.stats.Allocs++
	if b.next = h.buffers; b.next != nil {
		b.next.prev = b
	}
	h.buffers = b
	return b, nil
}

// count adds bytes of a buffer to the live ones. It needs mu.
func (h *heap) count(b *buffer, bytes int64) {
	s := &h.stats
	s.Live += bytes
	s.LiveBy[b.usage] += bytes
	s.Peak = max(s.Peak, s.Live)
	s.PeakBy[b.usage] = max(s.PeakBy[b.usage], s.LiveBy[b.usage])
}

// give gives a buffer's memory back; after is its last uses. Without any, the last
// queued write stands for them. The handle is retired when queued work no longer
// refers to it. It needs mu.
func (h *heap) give(b *buffer, after []device.Event) {
	h.count(b, -b.block.Size)
	if slices.ContainsFunc(after, func(e device.Event) bool { return e.Queue != nil }) {
		h.space.Give(b.block, after...)
	} else {
		h.space.Give(b.block, b.born, b.ready)
	}
	b.block = nil
	if b.prev == nil {
		h.buffers = b.next
	} else {
		b.prev.next = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	}
	b.prev, b.next = nil, nil
	if b.pending == 0 {
		h.retire(b)
	}
}

// retire keeps the handle of a buffer that nothing uses any more. It needs mu.
func (h *heap) retire(b *buffer) {
	for c := b.packed; c != nil; c = c.next {
		h.release(c)
	}
	b.packed, b.ready, b.born = nil, device.Event{}, device.Event{}
	b.contents.Store(0)
	h.retired.put(b)
}

// freeAll frees the buffers that are left, once the last copy between devices
// that uses one has ended. Its error names them.
func (h *heap) freeAll() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.pins > 0 {
		h.idle.Wait()
	}
	var leaks []string
	var bytes int64
	for b := h.buffers; b != nil; b = h.buffers {
		leaks, bytes = append(leaks, fmt.Sprintf("%s %v", b.usage, b.meta)), bytes+b.block.Size
		b.state = deleted
		h.give(b, nil)
	}
	if leaks == nil || h.lost != nil { // then they are written off
		return nil
	}
	return fmt.Errorf("%s: %d buffers with %d bytes were not freed: %s", h.id, len(leaks), bytes, some(leaks))
}

// move is the move of a buffer to free memory.
type move struct {
	buffer *buffer
	to     int64 // offset
}

// inTheWay appends to list the moves, in this order, after which a buffer of so
// many bytes has room. There are none if nothing need or can be moved.
func (h *heap) inTheWay(list []move, bytes int64, m device.Mover) []move {
	h.mu.Lock()
	defer h.mu.Unlock()
	moves, _ := h.space.Gather(bytes, func(x *memory.Block) bool {
		b, taken := x.Owner.(*buffer)
		return taken && m.Movable(b)
	})
	for _, x := range moves {
		list = append(list, move{x.Block.Owner.(*buffer), x.To})
	}
	return list
}

// fits reports whether a buffer of so many bytes has room.
func (h *heap) fits(bytes int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.space.Largest() >= bytes
}

// supply makes sure that the system has memory where a buffer is to move.
func (h *heap) supply(x move) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if size := x.buffer.block.Size; !h.back(x.to, size) {
		return fmt.Errorf("%s: %w: the system has no %d bytes left", h.id, device.ErrOutOfMemory, size)
	}
	return nil
}

// move makes the buffer that takes another's place in the heap, in other memory. It
// adds to after the events that the move in q must wait for, and pins both buffers
// for it; rest is to be given back after it.
func (h *heap) move(x move, q device.Queue, after *device.Fence) (to *buffer, rest *memory.Block) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := x.buffer
	block, rest, uses := h.space.Move(memory.Move{Block: b.block, To: x.to})
	for _, e := range uses {
		after.Add(e)
	}
	h.dislodge(block, q, after)
	to = h.retired.get()
	to.heap, to.meta, to.usage, to.block, to.state = h, b.meta, b.usage, block, live
	to.off, block.Owner = block.Off, to
	to.prev, to.next = b.prev, b.next
	if b.prev == nil {
		h.buffers = to
	} else {
		b.prev.next = to
	}
	if b.next != nil {
		b.next.prev = to
	}
	b.block, b.prev, b.next, b.state = nil, nil, nil, deleted
	b.pinLocked()
	to.pinLocked()
	return to, rest
}

// moved records the event of a move, and gives the rest of the memory back after it.
func (h *heap) moved(to *buffer, rest *memory.Block, done device.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.ready, to.born = done, done
	h.space.Give(rest, done)
}

// some joins the first few of a list.
func some(list []string) string {
	const most = 8
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
