package eager

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// deviceHandler is the handler that runs calls on devices.
type deviceHandler struct{ context *Context }

// Execute checks the call and queues it.
func (h *deviceHandler) Execute(inv *Invocation) {
	c := h.context
	w := &work{op: inv.Op, what: inv.Op.Kind(), loc: inv.Loc, after: inv.Chain}
	l, err := c.begin(w, inv.Device, inv.Args, true)
	if err != nil {
		inv.poison(err)
		return
	}
	e, err := l.cache.lookup(w.op, w.args)
	if err == nil {
		w.entry = e
		w.expect(e.outs)
		err = l.queue(w)
	}
	if err != nil {
		inv.poison(c.abandon(w, err))
		return
	}
	inv.Results = w.results
	if inv.Chain != nil {
		inv.Chain = &Chain{&w.outcome}
	}
}

// begin takes the arguments and finds the lane. With consume, it consumes all of
// them, even if it fails. Its error is an *Error. An error that arose here is
// reported; one that an argument has was reported before.
func (c *Context) begin(w *work, id device.ID, args []*Tensor, consume bool) (l *lane, err error) {
	by := oneUse
	if consume {
		by -= oneRef
	}
	var failed, wrong error
	w.args = w.argRoom[:0]
	for i, a := range args {
		switch {
		case a == nil || a.made == nil:
			wrong = fmt.Errorf("argument %d is nil", i)
		case a.failed():
			failed = a.Err()
		case !a.move(by):
			wrong = fmt.Errorf("argument %d: %w", i, a.consumed())
		default:
			w.args = append(w.args, a)
		}
	}
	if wrong == nil && failed == nil {
		l, wrong = c.findLane(w, id)
	}
	if wrong != nil {
		return nil, c.abandon(w, wrong)
	}
	if failed != nil {
		w.unuse()
	}
	return l, failed
}

// findLane finds the lane of a call and checks that all arguments are there.
func (c *Context) findLane(w *work, id device.ID) (l *lane, err error) {
	w.era = c.era.Load()
	if err := context.Cause(w.era); err != nil {
		return nil, err
	}
	if len(w.args) > 0 && id == "" {
		if l = c.laneOf(w.args[0]); l == nil {
			return nil, fmt.Errorf("argument 0 (%v) belongs to another context: copy it through the host", w.args[0].meta)
		}
	} else if l, err = c.lane(id); err != nil {
		return nil, err
	}
	for i, a := range w.args {
		if a.made.home != &l.home {
			return nil, fmt.Errorf("argument %d (%v) is on %s, the call on %s: %w: use CopyTo", i, a.meta, a.Device(), l.dev.ID(), ErrDevice)
		}
	}
	w.home = &l.home
	return l, nil
}

// abandon ends a call that was not queued. It reports and returns its error.
func (c *Context) abandon(w *work, cause error) error {
	w.unuse()
	err := &Error{Op: w.what, Loc: w.loc, Err: cause}
	c.report(err)
	return err
}
