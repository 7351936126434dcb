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

// limitHeap makes the garbage collector run in time where memory is short. Without
// a limit the heap may grow to twice the data in it. A user's GOMEMLIMIT holds.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if free, err := host.Available(); err == nil {
		debug.SetMemoryLimit(max(leastHeap, int64(float64(free)*shareOfHeap)))
	}
}
