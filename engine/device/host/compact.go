package host

import (
	"errors"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
)

// Compact implements device.Compactor.
func (s *Stream) Compact(bytes int64, m device.Mover) (bool, error) {
	h := s.base.heap
	for _, b := range h.inTheWay(bytes, m) {
		to, done, err := s.slide(b, m.Uses(b))
		m.Moved(b, to, done)
		if err != nil {
			return false, s.wrap("move", err)
		}
	}
	return h.fits(bytes), nil
}

// slide queues the move of one buffer into the free memory before it.
func (s *Stream) slide(b *buffer, uses []device.Event) (to *buffer, done device.Event, err error) {
	s.after = append(s.after[:0], uses...)
	if !slices.ContainsFunc(uses, func(e device.Event) bool { return e.Queue != nil }) {
		s.after.Add(b.bornOn()) // it waits for the uses before
	}
	to, rest := s.base.heap.slide(b, &s.queue, &s.after)
	for _, e := range s.after {
		if !e.Done() {
			err = errors.Join(err, s.put(command{op: opEnd, event: e}))
		}
	}
	seq, more := s.reserve()
	done = s.event(seq)
	s.base.heap.moved(to, rest, done)
	return to, done, errors.Join(err, more, s.commit(seq, command{op: opMove, dst: to, src: b}))
}

// inTheWay lists the buffers to slide, in this order, so that one of so many bytes
// has room behind the last. It is empty if nothing need or can be moved.
func (h *heap) inTheWay(bytes int64, m device.Mover) (list []*buffer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	owner := h.owner
	clear(owner)
	for b := h.buffers; b != nil; b = b.next {
		owner[b.block] = b
	}
	blocks, _ := h.arena.Gather(bytes, func(x *memory.Block) bool {
		b := owner[x]
		return b != nil && m.Movable(b)
	})
	for _, x := range blocks {
		list = append(list, owner[x])
	}
	return list
}

// fits reports whether a buffer of so many bytes has room.
func (h *heap) fits(bytes int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.arena.Largest() >= bytes
}

// slide makes the buffer that takes b's place in the heap, in memory further down.
// It adds to after the events that the move in q must wait for, and pins both
// buffers for it; rest is to be given back after it.
func (h *heap) slide(b *buffer, q device.Queue, after *device.Fence) (to *buffer, rest *memory.Block) {
	h.mu.Lock()
	defer h.mu.Unlock()
	block, rest, uses := h.arena.Slide(b.block)
	for _, e := range uses {
		after.Add(e)
	}
	h.arena.back(block.Off, block.Size) // between pages that are in use
	h.dislodge(block, q, after)
	to = h.retired.get()
	to.heap, to.meta, to.usage, to.block, to.state = h, b.meta, b.usage, block, live
	to.data = h.arena.bytes(block.Off, b.meta.Bytes())
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

// moved notes the event of a move, and gives the rest of the memory back after it.
func (h *heap) moved(to *buffer, rest *memory.Block, done device.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.ready, to.born = done, done
	h.arena.Give(rest, done)
}
