package host

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
)

// packed is a packed copy of a buffer's contents, in one layout.
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
	off     int64         // of the memory in the arena
	evicted bool          // its memory was taken away, and none is taken again
	inUse   bool          // a kernel runs with the memory
	user    device.Event  // the launch of that kernel
	reread  bool          // the contents that the last run found were read before
	last    uint64        // number of the contents that the last run found; 0 for none
	made    uint64        // number of the contents of which this is a copy; 0 for none
	next    *packed
}

// packing is a kernel that packs one input of the graph.
type packing struct {
	Packer
	index  int    // of the graph's input
	layout string // of the copy
	bytes  int64  // of the copy

	buffer *buffer // of the run under way
	copy   *packed // of buffer
}

// before readies the kernel for a run that reads b, in a launch that ends with
// an event: it gives the kernel the packed copy, or memory to make it in, or
// neither.
func (k *packing) before(b *buffer, launch device.Event) {
	h := b.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	k.buffer, k.copy = b, b.packedAs(k.layout, k.bytes)
	c, now := k.copy, b.contents.Load()
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
		k.UsePacked(nil, false)
		return
	}
	c.inUse, c.user = true, launch
	k.UsePacked(h.arena.bytes(c.off, c.size), c.made == now)
}

// after ends a run that began with before. ok tells that the kernel succeeded.
func (k *packing) after(ok bool) {
	h, c := k.buffer.heap, k.copy
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
