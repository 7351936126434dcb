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
