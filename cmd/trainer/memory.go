package main

import (
	"os"
	"runtime/debug"

	"github.com/berth-ml/berth/engine/device/host"
)

// shareOfHeap is the share of the available memory that the heap may fill with
// garbage.
const shareOfHeap = 0.95

// limitHeap makes the garbage collector run in time where memory is short. Without
// a limit the heap may grow to twice the data in it. A user's GOMEMLIMIT holds.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if free, err := host.Available(); err == nil {
		debug.SetMemoryLimit(int64(float64(free) * shareOfHeap))
	}
}
