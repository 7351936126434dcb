package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// TaskError is the failure of one task of a step.
type TaskError struct {
	Step       Ticket
	Task       string // "s1.F3"
	Device     device.ID
	Microbatch int
	Err        error
}

// Error names task and device.
func (e *TaskError) Error() string { return fmt.Sprintf("%s on %s: %v", e.Task, e.Device, e.Err) }

// Unwrap is what went wrong.
func (e *TaskError) Unwrap() error { return e.Err }

func (p *Program) failed(f *flight, t *task, err error) error {
	return &TaskError{Step: f.ticket, Task: t.name, Device: p.rt.Devices[t.dev].ID(), Microbatch: t.microbatch, Err: err}
}

// abort undoes a step that could not be queued whole. It waits for the tasks and
// copies that were queued, so that nothing uses the batch any more and the
// answer does not depend on timing: a task that failed meanwhile is the cause.
// The step can be taken again unless a queue failed or a part of the update was
// queued.
func (p *Program) abort(f *flight, err error) error {
	slot := f.ticket % ahead
	half := slices.ContainsFunc(f.e.tasks, func(t *task) bool {
		return t.updates && t.events[slot] != device.Event{}
	})
	if half {
		err = fmt.Errorf("%w; a part of the update ran already: begin again from saved variables", err)
	}
	if len(p.rt.settle()) > 0 || half {
		err = p.rt.fail(err)
	}
	errs := []error{err}
	for _, t := range f.e.passing {
		if e := p.rt.Residency.Drop(t); e != nil {
			errs = append(errs, e)
		}
	}
	for i := range f.e.feeds {
		copied, _ := p.rt.Residency.FeedDone(f.e.feeds[i].tensor)
		// Its failure was reported, or concerns nobody any more.
		_ = copied.Wait(context.Background())
	}
	p.rt.expected = nil // residency stands in the midst of the step
	f.e = nil
	if len(errs) == 1 {
		return err
	}
	return errors.Join(errs...)
}

// settle waits for all queued work and copies. It returns what queues failed
// with, compute queues first: such a queue fails whatever comes later.
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
// Tasks were queued so that whoever produces comes before whoever consumes,
// and what fails poisons what follows: the first in that order is the cause.
func (r *Runtime) firstFailure() error {
	var first error
	order := r.steps + 1
	for _, p := range r.programs {
		for i := range p.inflight {
			f := &p.inflight[i]
			if f.e == nil || f.order >= order {
				continue
			}
			if err := p.firstFailure(f); err != nil {
				first, order = err, f.order
			}
		}
	}
	return first
}

// firstFailure finds the task of a step that failed first.
func (p *Program) firstFailure(f *flight) error {
	for _, t := range f.e.tasks {
		if cause := t.events[f.ticket%ahead].Err(); cause != nil {
			return p.failed(f, t, cause)
		}
	}
	return nil
}
