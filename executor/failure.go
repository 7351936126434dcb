package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
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
	for _, e := range r.exchange.ends(nil) {
		if err := e.Wait(context.Background()); err != nil {
			failures = append(failures, err)
		}
	}
	return append(failures, r.Residency.Settle()...)
}

// fail makes the runtime unusable and returns the cause: the first failure of a
// task under way, or err if no task failed. Later calls return the same cause.
func (r *Runtime) fail(err error) error {
	if r.failure == nil {
		r.exchange.fail(err) // nothing waits for other ranks any more
		failures := r.settle()
		r.failure = r.firstFailure()
		if r.failure == nil || errors.Is(r.failure, ranks.ErrEnded) && !errors.Is(err, ranks.ErrEnded) {
			r.failure = explain(err, failures) // also where no task met it, and it has ended the messages
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
	failures = slices.DeleteFunc(slices.Clone(failures), func(f error) bool { return errors.Is(f, ranks.ErrEnded) })
	says := func(f error) bool { return errors.Is(err, f) }
	if len(failures) == 0 || slices.ContainsFunc(failures, says) {
		return err
	}
	return fmt.Errorf("%w; an earlier copy failed: %w", err, failures[0])
}

// firstFailure is the failure of the first task under way that failed, nil if
// none did. A value's producer was queued before its consumers, and a failure
// spreads to all consumers, so the first one in the order of queueing is the
// cause.
func (r *Runtime) firstFailure() error {
	var first error
	var ended bool // it is of a message that the cause has ended
	var order uint64
	for _, p := range r.programs {
		for i := range p.inflight {
			f := &p.inflight[i]
			if f.e == nil {
				continue
			}
			err := f.firstFailure()
			if err == nil {
				continue
			}
			if late := errors.Is(err, ranks.ErrEnded); first == nil || ended && !late || ended == late && f.order < order {
				first, ended, order = err, late, f.order
			}
		}
	}
	return first
}

// abort undoes a step that could not be queued whole, because of err. It waits for
// the tasks and copies that were queued: the batch is then unused, and the cause
// does not depend on timing, since a task that failed meanwhile takes the place
// of err. The step can be tried again unless a device, a queue or a copy failed,
// or a part of the update was queued.
func (p *Program) abort(f *flight, err error) error {
	half := f.halfUpdated()
	if half {
		err = fmt.Errorf("%w; %w: start again from a checkpoint", err, ErrHalf)
	}
	var copied *residency.CopyError
	lost := errors.Is(err, device.ErrLost) || errors.As(err, &copied)
	if p.rt.exchange != nil || len(p.rt.settle()) > 0 || half || lost { // other ranks take the step
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

// failedCopy is a copy that failed, and after which others were queued. The runtime keeps it until the
// steps have ended that could have waited for it.
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

// Resume makes the runtime usable again after an op had a result that is not finite: the
// values of one batch say nothing about the next. It gives up the steps under way; waiting
// for one of them does nothing then. After any other failure, and where one of the steps
// has written variables or caches, the runtime stays unusable, and the error is the failure.
// Without a failure nothing happens. Ranks cannot resume: the others have heard of the failure.
func (r *Runtime) Resume() error {
	if r.closed || r.failure == nil || r.exchange != nil {
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
		if err := p.giveUpSteps(); err != nil {
			return err
		}
	}
	r.expected = nil
	return r.renewStreams()
}

// wroteVariables reports whether a step under way has written variables.
func (p *Program) wroteVariables() bool {
	for i := range p.inflight {
		if f := &p.inflight[i]; f.e != nil {
			if wrote, _ := f.updates(); wrote > 0 {
				return true
			}
		}
	}
	return false
}

// giveUpSteps ends the steps under way, whose queued work has ended, without results.
func (p *Program) giveUpSteps() (err error) {
	for i := range p.inflight {
		f := &p.inflight[i]
		if f.e == nil {
			continue
		}
		err = errors.Join(err, p.rt.dropStep(f))
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

// Whole is the last step at whose end every variable is: its update has ended, and
// nothing of a later one has begun. It is for saving the variables after a failure,
// and waits for everything that is queued. It fails where the variables are not all
// at the end of one step, or where a copy of one has failed. Of ranks, each looks at the
// variables of which it has the newest contents.
func (p *Program) Whole() (Ticket, error) {
	p.rt.settle()
	last, err := p.updated()
	if err != nil {
		return 0, err
	}
	for _, v := range p.Graph().Vars {
		if p.Var(v.Name) == nil || !p.newest(v.Name) {
			continue
		}
		if err := p.rt.Residency.Intact(context.Background(), p.Var(v.Name)); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// updated is the last step whose update has ended. Everything queued has.
func (p *Program) updated() (Ticket, error) {
	if p.half {
		return 0, ErrHalf
	}
	last := Ticket(p.steps)
	for t := max(last, ahead) - ahead + 1; t <= Ticket(p.steps); t++ {
		f := p.inflight.of(t)
		if f.e == nil || f.ticket != t { // it ended well
			continue
		}
		wrote, failed := f.updates()
		switch {
		case wrote > 0 && failed > 0, wrote > 0 && last < t:
			return 0, fmt.Errorf("step %d: %w", t, ErrHalf)
		case failed > 0:
			last = min(last, t-1)
		}
	}
	return last, nil
}

// updates counts the queued tasks of a step that write variables, by how they ended: wrote,
// or failed or were skipped. An op whose results are not finite counts twice: it has
// written them, and failed.
func (f *flight) updates() (wrote, failed int) {
	for _, t := range f.e.tasks {
		e := t.events[f.slot()]
		if !t.updates || e == (device.Event{}) {
			continue
		}
		err := e.Err()
		if err == nil || t.wrote(err) {
			wrote++
		}
		if err != nil {
			failed++
		}
	}
	return wrote, failed
}

// wrote reports whether a failure is about the results of the task's own op.
func (t *task) wrote(err error) bool {
	nf, ok := errors.AsType[*device.NonFiniteError](err)
	return ok && t.call != nil && nf.Node != nil && slices.Contains(t.exe.Graph().Nodes, nf.Node)
}
