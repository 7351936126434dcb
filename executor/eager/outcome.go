package eager

import (
	"context"

	"github.com/berth-ml/berth/internal/errs"
)

// outcome is the part of a call that its results and chain keep: how to wait for
// it, and its error.
type outcome struct {
	home  *home         // of a call that was queued in a lane
	seq   uint64        // its number there, from 1
	ended chan struct{} // of a call that no lane runs: closed when it has ended
	err   error         // valid once it has ended
}

// done reports whether the call has ended. The zero Chain's always has, and so
// has a call that failed before it was queued.
func (o *outcome) done() bool {
	switch {
	case o == nil:
		return true
	case o.ended != nil:
		select {
		case <-o.ended:
			return true
		default:
			return false
		}
	}
	return o.home == nil || o.home.progress.done(o.seq)
}

// failure is the call's failure, nil while it is not known.
func (o *outcome) failure() error {
	if o == nil || !o.done() {
		return nil
	}
	return o.err
}

// wait blocks until the call has ended. Its error is the call's, or ctx's cause.
func (o *outcome) wait(ctx context.Context) error {
	if err := errs.CheckContext(ctx); err != nil {
		return err
	}
	switch {
	case o.done():
	case o.ended != nil:
		select {
		case <-o.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
		if err := o.home.progress.await(ctx, o.seq); err != nil {
			return err
		}
	}
	return o.failure()
}

// Chain orders calls with side effects: a call that is given a chain runs
// when the call that made the chain has ended, and fails if that failed. The
// zero Chain and a nil one have always ended. Unlike tensors, chains are not counted.
type Chain struct{ made *outcome }

// free reports whether a call with this chain need not wait and cannot fail by it. The
// chain may be nil.
func (c *Chain) free() bool { return c == nil || c.made.done() && c.made.failure() == nil }

// Wait blocks until the call that made the chain has ended and returns its
// failure, or ctx's error if that came first.
func (c *Chain) Wait(ctx context.Context) error { return c.outcome().wait(ctx) }

// Err is the failure, nil while it is not known.
func (c *Chain) Err() error { return c.outcome().failure() }

// outcome is that of the call that made the chain, nil if there is none.
func (c *Chain) outcome() *outcome {
	if c == nil {
		return nil
	}
	return c.made
}
