package executor

import (
	"errors"

	"github.com/berth-ml/berth/engine/device"
)

// failedCopy is a copy that failed, and after which others were queued.
type failedCopy struct {
	err   error
	order uint64 // of the newest step when it was noticed
}

// Retried is the failures after which copies were repeated, or were not needed any more.
// Each is returned once: when the steps have ended that could have waited for it. The
// failure of a step, and of a device that is lost, is told by another error.
func (r *Runtime) Retried() (list []error) {
	r.noteFailures()
	ended := r.steps
	for _, p := range r.programs {
		for i := range p.inflight {
			if f := &p.inflight[i]; f.e != nil && r.failure == nil {
				ended = min(ended, f.order-1)
			}
		}
	}
	kept := r.copies[:0]
	for _, c := range r.copies {
		switch {
		case c.order > ended:
			kept = append(kept, c)
		case !errors.Is(r.failure, c.err):
			list = append(list, c.err)
		}
	}
	r.copies = kept
	return list
}

// noteFailures takes the failures of copies from residency.
func (r *Runtime) noteFailures() {
	for _, err := range r.Residency.Failures() {
		if !errors.Is(err, device.ErrLost) {
			r.copies = append(r.copies, failedCopy{err, r.steps})
		}
	}
}
