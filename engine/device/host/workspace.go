package host

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
)

// workspace is a device's scratch region, which all executables share. Whoever
// launches holds the lock, so launches never overlap.
type workspace struct {
	sync.Mutex
	heap     *heap
	region   block
	moves    int          // how often region changed
	launches atomic.Int64 // launches that have ended
}

// grow makes the region at least n bytes. It waits for a launch that runs.
func (w *workspace) grow(n int64) error {
	w.Lock()
	defer w.Unlock()
	if n <= w.region.size {
		return nil
	}
	h := w.heap
	h.mu.Lock()
	defer h.mu.Unlock()
	old := w.region
	h.unreserve(old, device.Scratch)
	off, err := h.reserve(n, device.Scratch)
	if err != nil {
		var back error
		if w.region.off, back = h.reserve(old.size, device.Scratch); back != nil {
			panic(fmt.Sprintf("BUG: the old scratch region does not fit again: %v", back))
		}
		w.moves++
		return fmt.Errorf("%w, for temporaries", err)
	}
	w.region = block{off, n}
	w.moves++
	return nil
}

// bytes is a range of the region. It needs the lock.
func (w *workspace) bytes(off, size int64) []byte {
	return w.heap.arena.bytes(w.region.off+off, size)
}

// free gives the region back. It needs the lock and heap.mu.
func (w *workspace) free() {
	w.heap.unreserve(w.region, device.Scratch)
	w.region = block{}
}
