package streams

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
)

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
