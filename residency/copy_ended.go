package residency

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/hostmem"
)

// ended waits on the host until e has succeeded or failed. Its error is ctx's.
func ended(ctx context.Context, e device.Event) error {
	if e.Wait(ctx) != nil && !e.Done() {
		return ctx.Err()
	}
	return nil
}

// await blocks until a pinned block has its contents. Its error is the reason for
// which they are not right, or ctx's.
func await(ctx context.Context, h *hostmem.Block) error {
	if err := h.Ready.Wait(ctx); err != nil && !h.Ready.Done() {
		return err
	}
	return firstFailure(h.Ready, h.Causes)
}

// writable blocks until the host may write a block that nobody else knows yet. Its
// error is ctx's.
func writable(ctx context.Context, h *hostmem.Block) error {
	for _, e := range h.Uses() {
		if err := ended(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
