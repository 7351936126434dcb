package streams

import (
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
)

// base is the part of a device that its streams and executables use.
type base struct {
	spec   device.Spec
	config Config

	heap    *heap
	turn    turn
	running sync.WaitGroup // the goroutines of streams

	// Under heap.mu: the queue of the first stream that launched, and whether
	// others have launched too.
	launcher device.Queue
	shared   bool
}

// turn is held by the launch that runs. Launches of a device never overlap.
type turn struct {
	sync.Mutex
	launches atomic.Int64 // that have ended
}

// alone tells whether no other stream than q's has launched on the device.
func (b *base) alone(q device.Queue) bool {
	b.heap.mu.Lock()
	defer b.heap.mu.Unlock()
	if b.launcher == nil {
		b.launcher = q
	}
	b.shared = b.shared || b.launcher != q
	return !b.shared
}
