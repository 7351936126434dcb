package streams

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
	off     int64         // of the memory in the device's
	evicted bool          // its memory was taken away, and none is taken again
	inUse   bool          // a kernel runs with the memory
	user    device.Event  // the launch of that kernel
	reread  bool          // the contents that the last run found were read before
	last    uint64        // number of the contents that the last run found; 0 for none
	made    uint64        // number of the contents of which this is a copy; 0 for none
	next    *packed
}

// OpenPacked finds the packed copy of input j in one layout, or memory of that
// many bytes to make it in. off is where it is, -1 without memory; made tells
// whether the copy is there. The program calls ClosePacked after its use.
func (l *Launch) OpenPacked(j int, layout string, bytes int64) (off int64, made bool) {
	h, b := l.heap, l.in[j]
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
	h, c := l.heap, l.packed
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
