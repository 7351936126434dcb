package command

import (
	"os"
	"runtime/debug"

	"github.com/berth-ml/berth/engine/device/host"
)

// The share of the available memory that the heap may fill with garbage, and the
// bytes that it may fill in any case: with less, collections would never end.
const (
	shareOfHeap = 0.95
	leastHeap   = 64 << 20
)

// A ballast is bytes of the heap that nobody touches, so they take addresses and no memory. A start makes some 15 MiB of data,
// and most of it stays. Without the ballast, the collector would go through that four times.
const (
	ballastBytes = 16 << 20
	muchHeap     = 64 * ballastBytes // with less, each byte is for data
)

// prepareHeap makes the garbage collector run in time where memory is short: without a limit the heap may grow to twice the
// data in it. Where memory is not short, the collector does not run during a start; the caller keeps the ballast until the end.
// A user's GOMEMLIMIT holds.
func prepareHeap() (ballast []byte) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	free, err := host.Available()
	if err != nil {
		return nil
	}
	limit := max(leastHeap, int64(float64(free)*shareOfHeap))
	debug.SetMemoryLimit(limit)
	if limit >= muchHeap {
		ballast = make([]byte, ballastBytes)
	}
	return ballast
}
