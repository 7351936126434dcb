package streams

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
)

// packed is a packed copy of a buffer's contents, in one layout. The buffer owns it.
//
// The copy is made when a run finds the same contents as the run before it:
// packing contents that are read once would gain nothing. After a change the
// copy is made anew only if the previous contents were read at least twice;
// otherwise its memory is given back. So weights stay packed through the
// microbatches of a step, or through an evaluation, but not where every run
// finds them changed. An allocation that gets the memory of a copy evicts it for good.
//
// All fields are under heap.mu.
type packed struct {
	layout  string
	size    int64         // bytes
	room    *memory.Block // in the heap's guestSpace; nil without memory
	off     int64         // of the memory in the device's
	evicted bool          // its memory was taken away, and none is taken again
	inUse   bool          // a kernel runs with the memory
	user    device.Event  // the launch of that kernel
	reread  bool          // the contents of the last run had been read before
	last    uint64        // number of the contents that the last run found; 0 for none
	made    uint64        // number of the contents of which this is a copy; 0 for none
	next    *packed
}

// packedAs finds the packed copy of b in one layout, or begins it. It needs
// heap.mu.
func (b *buffer) packedAs(layout string, bytes int64) *packed {
	for c := b.packed; c != nil; c = c.next {
		if c.layout == layout {
			return c
		}
	}
	b.packed = &packed{layout: layout, size: bytes, next: b.packed}
	return b.packed
}

// Packed copies are guests in free memory: they leave when it is allocated, and
// no allocation depends on where they are. They fill the memory from its end on.

// lodge gives a packed copy memory, unless what is free there is still in use.
// It needs mu.
func (h *heap) lodge(c *packed) {
	room, _, ok := h.guestSpace.Take(c.size, nil)
	if !ok {
		return
	}
	off := h.size - room.Off - room.Size
	if !h.space.Idle(off, room.Size) || !h.back(off, room.Size) {
		h.guestSpace.Give(room)
		return
	}
	c.room, c.off = room, off
	h.guests = append(h.guests, c)
	h.stats.Cached += room.Size
}

// dislodge takes the memory of an allocation from the packed copies in it, for
// good. Of those that kernels run with, it adds the launches to after, which q
// must wait for. It needs mu.
func (h *heap) dislodge(b *memory.Block, q device.Queue, after *device.Fence) {
	for i := len(h.guests) - 1; i >= 0; i-- {
		c := h.guests[i]
		if c.off >= b.Off+b.Size || b.Off >= c.off+c.room.Size {
			continue
		}
		c.evicted = true
		if !c.inUse {
			h.release(c)
		} else if c.user.Queue != q {
			after.Add(c.user)
		}
	}
}

// release gives the memory of a packed copy back, if it has any. It needs mu.
func (h *heap) release(c *packed) {
	if c.room == nil {
		return
	}
	h.stats.Cached -= c.room.Size
	h.guestSpace.Give(c.room)
	i := slices.Index(h.guests, c)
	last := len(h.guests) - 1
	h.guests[i], h.guests[last] = h.guests[last], nil
	h.guests = h.guests[:last]
	c.room, c.made, c.reread = nil, 0, false
}

// OpenPacked finds the packed copy of input j in one layout, or memory of that
// many bytes to make it in. off is where it is, -1 without memory; made tells
// whether the copy is there. The program calls ClosePacked after its use.
func (l *Launch) OpenPacked(j int, layout string, bytes int64) (off int64, made bool) {
	h, b := l.x.owner.heap, l.in[j]
	h.mu.Lock()
	defer h.mu.Unlock()
	l.packed = b.packedAs(layout, bytes)
	c, now := l.packed, b.contents.Load()
	unchanged := now != 0 && c.last == now
	switch {
	case unchanged:
		c.reread = true
		if c.room == nil && !c.evicted {
			h.lodge(c)
		}
	case c.room != nil && !c.reread:
		h.release(c)
	default:
		c.reread = false
	}
	c.last = now
	if c.room == nil {
		return -1, false
	}
	c.inUse, c.user = true, l.event
	return c.off, c.made == now
}

// ClosePacked ends the use that OpenPacked began. ok tells whether the copy is there
// now, if it has memory.
func (l *Launch) ClosePacked(ok bool) {
	h, c := l.x.owner.heap, l.packed
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.made = 0; ok && c.room != nil {
		c.made = c.last
	}
	c.inUse = false
	if c.evicted {
		h.release(c)
	}
}
