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
	if ended, _ := f.updates(); ended > 0 {
		p.half = true
	}
	errs := []error{err}
	for _, t := range f.e.passing {
		if e := p.rt.Residency.Drop(t); e != nil {
			errs = append(errs, e)
		}
	}
	for i := range f.e.feeds {
		copied, _ := p.rt.Residency.FeedDone(f.e.feeds[i].tensor)
		// A failure was reported already, or no task needs the copy any more.
		_ = copied.Wait(context.Background())
	}
	p.rt.expected = nil // residency stopped in the middle of the order of uses
	f.e = nil
	if len(errs) == 1 {
		return err
	}
	return errors.Join(errs...)
}
