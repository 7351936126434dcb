package streams

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
)

// Compact implements device.Compactor.
func (s *Stream) Compact(bytes int64, m device.Mover) (bool, error) {
	h := s.base.heap
	s.moves = h.inTheWay(s.moves[:0], bytes, m)
	for _, x := range s.moves {
		if err := h.supply(x); err != nil {
			return false, s.wrap("move", err)
		}
		to, done, err := s.move(x, m.Uses(x.buffer))
		m.Moved(x.buffer, to, done)
		if err != nil {
			return false, s.wrap("move", err)
		}
	}
	return h.fits(bytes), nil
}

// move queues the move of one buffer.
func (s *Stream) move(x move, uses []device.Event) (to *buffer, done device.Event, err error) {
	s.after = append(s.after[:0], uses...)
	if !slices.ContainsFunc(uses, func(e device.Event) bool { return e.Queue != nil }) {
		s.after.Add(x.buffer.bornOn()) // it waits for the uses before
	}
	to, rest := s.base.heap.move(x, &s.queue, &s.after)
	for _, e := range s.after {
		if !e.Done() {
			err = errors.Join(err, s.put(command{op: opEnd, event: e}))
		}
	}
	seq, more := s.reserve()
	done = s.event(seq)
	s.base.heap.moved(to, rest, done)
	return to, done, errors.Join(err, more, s.commit(seq, command{op: opMove, dst: to, src: x.buffer}))
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

// moved notes the event of a move, and gives the rest of the memory back after it.
func (h *heap) moved(to *buffer, rest *memory.Block, done device.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to.ready, to.born = done, done
	h.space.Give(rest, done)
}
