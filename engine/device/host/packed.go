package host

import "github.com/berth-ml/berth/engine/device"

// packed is a packed copy of a buffer's contents, in one layout.
//
// The copy is made when a run finds the same contents as the run before it:
// packing contents that are read once would gain nothing. After a change the
// copy is made anew only if the previous contents were read at least twice;
// otherwise its memory is given back. So weights stay packed through the
// microbatches of a step, or through an evaluation, but not where every run
// finds them changed. When memory gets short, copies are evicted for good.
//
// All fields are under heap.mu.
type packed struct {
	layout  string
	block          // valid while stored
	stored  bool   // block is memory
	evicted bool   // its memory is given back, and none is taken again
	inUse   bool   // a kernel runs with the memory
	reread  bool   // the contents that the last run found were read before
	last    uint64 // number of the contents that the last run found; 0 for none
	made    uint64 // number of the contents of which this is a copy; 0 for none
	next    *packed
}

// packing is a kernel that packs one input of the graph.
type packing struct {
	Packer
	index  int    // of the graph's input
	layout string // of the copy
	bytes  int64  // of the copy
	buffer *buffer
	copy   *packed // of buffer
}

// before readies the kernel for a run that reads b: it gives the kernel the
// packed copy, or memory to make it in, or neither.
func (k *packing) before(b *buffer) {
	h := b.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.buffer != b {
		k.buffer, k.copy = b, b.packedAs(k.layout, k.bytes)
	}
	c, now := k.copy, b.contents.Load()
	unchanged := now != 0 && c.last == now
	switch {
	case unchanged:
		c.reread = true
		if !c.stored && !c.evicted {
			c.off, c.stored = h.tryReserve(c.size, device.Scratch)
		}
	case c.stored && !c.reread:
		h.release(c)
	default:
		c.reread = false
	}
	c.last = now
	if !c.stored {
		k.UsePacked(nil, false)
		return
	}
	c.inUse = true
	k.UsePacked(h.arena.bytes(c.off, c.size), c.made == now)
}

// after ends a run that began with before. ok tells that the kernel succeeded.
func (k *packing) after(ok bool) {
	h, c := k.buffer.heap, k.copy
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.made = 0; ok && c.stored {
		c.made = c.last
	}
	c.inUse = false
	if c.evicted && c.stored {
		h.release(c)
		h.evicted.Broadcast()
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
	b.packed = &packed{layout: layout, block: block{size: bytes}, next: b.packed}
	return b.packed
}

// release gives the memory of a packed copy back. It needs mu.
func (h *heap) release(c *packed) {
	h.unreserve(c.block, device.Scratch)
	c.stored, c.made, c.reread = false, 0, false
}

// evict gives back the memory of all packed copies, if that makes room for n
// bytes, and tells whether to try again. If kernels run with all that are left,
// it waits for one to end. It needs mu.
func (h *heap) evict(n int64) bool {
	var all int64
	for b := h.buffers; b != nil; b = b.next {
		for c := b.packed; c != nil; c = c.next {
			if c.stored {
				all += c.size
			}
		}
	}
	if all == 0 || h.stats.Live-all+n > h.budget {
		return false
	}
	released := false
	for b := h.buffers; b != nil; b = b.next {
		for c := b.packed; c != nil; c = c.next {
			c.evicted = c.evicted || c.stored
			if c.stored && !c.inUse {
				h.release(c)
				released = true
			}
		}
	}
	if !released {
		h.evicted.Wait()
	}
	return true
}
