package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/residency"
)

// settle waits for all queued work and copies. It returns the failures of
// queues, compute queues first. A queue that failed skips all later work.
func (r *Runtime) settle() (failures []error) {
	for _, s := range r.compute {
		if err := s.Record().Wait(context.Background()); err != nil {
			failures = append(failures, err)
		}
	}
	return append(failures, r.Residency.Settle()...)
}

// fail makes the runtime unusable and returns the cause: the first failure of a
// task under way, or err if no task failed. Later calls return the same cause.
func (r *Runtime) fail(err error) error {
	if r.failure == nil {
		failures := r.settle()
		r.failure = r.firstFailure()
		if r.failure == nil {
			r.failure = explain(err, failures)
		}
		if lost := r.Residency.Lost(); lost != nil && !errors.Is(r.failure, residency.ErrLost) {
			r.failure = fmt.Errorf("%w; %w", r.failure, lost)
		}
		r.known = errors.Join(append(failures, r.failure)...)
	}
	return r.failure
}

// explain adds to err the failure of a copy that no task waited for, unless err
// names it: because of it, no further step can succeed.
func explain(err error, failures []error) error {
	says := func(f error) bool { return errors.Is(err, f) }
	if len(failures) == 0 || slices.ContainsFunc(failures, says) {
		return err
	}
	return fmt.Errorf("%w; a copy before it failed: %w", err, failures[0])
}

// firstFailure is the failure of the first task under way that failed, nil if
// none did. A value's producer was queued before its consumers, and a failure
// spreads to all consumers, so the first one in the order of queueing is the
// cause.
func (r *Runtime) firstFailure() error {
	var first error
	order := r.steps + 1
	for _, p := range r.programs {
		for i := range p.inflight {
			f := &p.inflight[i]
			if f.e == nil || f.order >= order {
				continue
			}
			if err := f.firstFailure(); err != nil {
				first, order = err, f.order
			}
		}
	}
	return first
}
