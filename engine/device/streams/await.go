package streams

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
)

// blocker waits for a command and tells no failure; its error is ctx's. Queues of
// this package are blockers.
type blocker interface {
	block(ctx context.Context, seq uint64) error
}

// awaitEnd waits until what e marks has ended, well or not, or ctx has. It counts
// as no report of a failure.
func awaitEnd(ctx context.Context, e device.Event) {
	if q, ok := e.Queue.(blocker); ok {
		_ = q.block(ctx, e.Seq) // fails only with the context
		return
	}
	_ = e.Wait(ctx)
}
