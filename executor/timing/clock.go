package timing

import (
	"context"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// leastCopy is the least time of a copy, in seconds: less is an error of the clock.
const leastCopy = 1e-6

// median sorts times, of which there is at least one.
func median(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}

// ended waits for an event, or until ctx is done.
func ended(ctx context.Context, done device.Event) error {
	err := done.Wait(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
