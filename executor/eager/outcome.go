package eager

import (
	"context"
	"sync/atomic"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
)

// outcome is the part of a call that its results and chain keep: how to wait for
// it, and its error.
type outcome struct {
	home *home  // nil if the call was refused and never queued
	seq  uint64 // its number in the lane, from 1
	err  error  // valid once it has ended
}

// home is the part of a lane that tensors refer to.
type home struct {
	dev      device.Device
	progress progress
	live     *live
	context  copier // the Context, which is built on tensors
}

// copier copies contents for Tensor's methods.
type copier interface {
	copyTo(t *Tensor, to device.ID, loc Location) *Tensor
	toHost(ctx context.Context, t *Tensor, loc Location) (*tensor.Dense, error)
}

// live counts the tensors that have memory, and their bytes.
type live struct{ tensors, bytes atomic.Int64 }

func (l *live) add(tensors, bytes int64) {
	l.tensors.Add(tensors)
	l.bytes.Add(bytes)
}

// done reports whether the call has ended. The zero Chain's always has, and so
// has a call that failed before it had a lane.
func (o *outcome) done() bool {
	return o == nil || o.home == nil || o.home.progress.done(o.seq)
}

// failure is the call's failure, nil while it is not known.
func (o *outcome) failure() error {
	if o == nil || !o.done() {
		return nil
	}
	return o.err
}

// wait blocks until the call has ended.
func (o *outcome) wait(ctx context.Context) error {
	if !o.done() {
		if err := o.home.progress.await(ctx, o.seq); err != nil {
			return err
		}
	}
	return o.failure()
}

// Chain orders calls with side effects: a call that is given a chain runs
// when the call that made the chain has ended, and fails if that failed. The
// zero Chain has always ended. Unlike tensors, chains are not counted.
type Chain struct{ made *outcome }

// Wait blocks until the call that made the chain has ended and returns its
// failure, or ctx's error if that came first.
func (c *Chain) Wait(ctx context.Context) error { return c.made.wait(ctx) }

// Err is the failure, nil while it is not known.
func (c *Chain) Err() error { return c.made.failure() }
