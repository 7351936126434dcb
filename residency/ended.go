package residency

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
)

// ended waits on the host until e has succeeded or failed. Its error is ctx's.
func ended(ctx context.Context, e device.Event) error {
	if e.Wait(ctx) != nil && !e.Done() {
		return ctx.Err()
	}
	return nil
}
