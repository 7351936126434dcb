package executor

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// Resume makes the runtime usable again after an op had a result that is not finite: the
// values of one batch say nothing about the next. It gives up the steps under way; waiting
// for one of them does nothing then. After any other failure, and where one of the steps
// has written variables or caches, the runtime stays unusable, and the error is the failure.
// Without a failure nothing happens.
func (r *Runtime) Resume() error {
	if r.closed || r.failure == nil {
		return r.usable()
	}
	for _, err := range append(r.settle(), r.failure) {
		if !errors.Is(err, device.ErrNonFinite) || errors.Is(err, device.ErrLost) {
			return r.failure
		}
	}
	for _, p := range r.programs {
		if p.wroteVariables() {
			return r.failure
		}
	}
	for _, p := range r.programs {
		if err := r.giveUpSteps(p); err != nil {
			return err
		}
	}
	r.expected = nil
	return r.renewStreams()
}

// wroteVariables reports whether a step under way has written variables.
func (l *loaded) wroteVariables() bool {
	for i := range l.inflight {
		if f := &l.inflight[i]; f.e != nil {
			if wrote, _ := f.updates(); wrote > 0 {
				return true
			}
		}
	}
	return false
}

// giveUpSteps ends the steps under way, whose queued work has ended, without results.
func (r *Runtime) giveUpSteps(l *loaded) (err error) {
	for i := range l.inflight {
		f := &l.inflight[i]
		if f.e == nil {
			continue
		}
		err = errors.Join(err, r.dropStep(f))
		f.e = nil
	}
	return err
}

// renewStreams gives each device a compute stream without a failure.
func (r *Runtime) renewStreams() error {
	r.compute = r.compute[:0]
	for i := range r.on {
		on := &r.on[i]
		if on.compute == nil {
			continue
		}
		s, err := r.Devices[i].NewStream(r.Residency.StreamName(device.ComputeStream))
		if err != nil {
			return fmt.Errorf("%s: %w", r.Devices[i].ID(), err)
		}
		_ = on.compute.Close() // it repeats the failure
		on.compute, r.compute = s, append(r.compute, s)
	}
	r.failure = nil
	return nil
}
