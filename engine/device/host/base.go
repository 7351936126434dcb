package host

import (
	"github.com/berth-ml/berth/engine/device"
)

// base is the part of a device that its streams and executables use.
type base struct {
	spec   device.Spec
	config Config

	heap      *heap
	workspace workspace

	// Under heap.mu: the queue of the first stream that launched, and whether
	// others have launched too.
	launcher *queue
	shared   bool
}

// alone tells whether no other stream than q's has launched on the device.
func (b *base) alone(q *queue) bool {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	if b.launcher == nil {
		b.launcher = q
	}
	b.shared = b.shared || b.launcher != q
	return !b.shared
}
