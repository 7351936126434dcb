package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// abort undoes a step that could not be queued whole, because of err. It waits for
// the tasks and copies that were queued: the batch is then unused, and the cause
// does not depend on timing, since a task that failed meanwhile takes the place
// of err. The step can be tried again unless a device, a queue or a copy failed,
// or a part of the update was queued.
func (p *Program) abort(f *flight, err error) error {
	half := f.halfUpdated()
	if half {
		err = fmt.Errorf("%w; %w: fill the variables of a new runtime from a checkpoint", err, ErrHalf)
	}
	var copied *residency.CopyError
	lost := errors.Is(err, device.ErrLost) || errors.As(err, &copied)
	if len(p.rt.settle()) > 0 || half || lost {
		err = p.rt.fail(err)
	}
	if wrote, _ := f.updates(); wrote > 0 {
		p.half = true
	}
	dropped := p.rt.dropStep(f)
	p.rt.expected = nil // residency stopped in the middle of the order of uses
	f.e = nil
	if dropped == nil {
		return err
	}
	return errors.Join(err, dropped)
}

// dropStep drops what a step has made to pass on, and gives its batch back. Everything
// queued has ended.
func (r *Runtime) dropStep(f *flight) error {
	var errs []error
	for _, t := range f.e.passing {
		errs = append(errs, r.Residency.Drop(t))
	}
	for i := range f.e.feeds {
		copied, _ := r.Residency.FeedDone(f.e.feeds[i].tensor)
		// A failure was reported already, or no task needs the copy any more.
		_ = copied.Wait(context.Background())
	}
	return errors.Join(errs...)
}
