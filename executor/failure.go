package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// settle waits for all queued work and copies. It returns the failures of
// queues, compute queues first: a queue that failed skips all later work.
func (r *Runtime) settle() (failures []error) {
	for _, s := range r.compute {
		if err := s.Record().Wait(context.Background()); err != nil {
			failures = append(failures, err)
		}
	}
	return append(failures, r.Residency.Settle()...)
}

// fail makes the runtime unusable, because of the first failure of a task that
// is under way, or else err, and returns that cause. A runtime fails once.
func (r *Runtime) fail(err error) error {
	if r.failure == nil {
		failures := r.settle()
		r.failure = r.firstFailure()
		if r.failure == nil {
			r.failure = explain(err, failures)
		}
		r.known = errors.Join(append(failures, r.failure)...)
	}
	return r.failure
}

// explain adds to err why no further step can succeed, unless err says it: no
// task waited for the copy that failed.
func explain(err error, failures []error) error {
	says := func(f error) bool { return errors.Is(err, f) }
	if len(failures) == 0 || slices.ContainsFunc(failures, says) {
		return err
	}
	return fmt.Errorf("%w; a copy before it failed: %w", err, failures[0])
}

// firstFailure finds the task under way that failed first, nil if none did.
// Tasks were queued so that a value's producer comes before its consumers,
// and a failure poisons all that follows: the first in that order is the cause.
func (r *Runtime) firstFailure() error {
	var first error
	order := r.steps + 1
	for _, fs := range r.flights {
		for i := range fs {
			f := &fs[i]
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
