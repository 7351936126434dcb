package eager

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// deviceHandler is the handler that runs calls on devices.
type deviceHandler struct{ context *Context }

// Execute runs the call now if it can, and queues it otherwise.
func (h *deviceHandler) Execute(inv *Invocation) {
	c := h.context
	if inv.Chain.free() {
		var out [maxOutputs]Tensor
		if n, ok, err := c.now(inv.Op, inv.Device, inv.Args, out[:]); ok {
			if err != nil {
				err = c.fail(inv.Op, inv.Loc, out[:n], err)
			}
			inv.Results = append(inv.Results[:0], out[:n]...)
			if c.places {
				note(inv.Loc, inv.Results...)
			}
			if inv.Chain != nil {
				inv.Chain = &Chain{&outcome{err: err}}
			}
			return
		}
	}
	c.later(inv)
}

// later checks the call and queues it.
func (c *Context) later(inv *Invocation) {
	w := &work{what: inv.Op.Kind(), loc: inv.Loc, after: inv.Chain}
	if err := c.submit(w, inv.Op, inv.Device, inv.Args); err != nil {
		inv.poison(err)
		return
	}
	inv.Results = w.results
	if inv.Chain != nil {
		inv.Chain = &Chain{&w.outcome}
	}
}

// submit checks a call and queues it. It consumes the arguments. Its error is an *Error, which
// it reports.
func (c *Context) submit(w *work, op graph.Op, id device.ID, args []Tensor) error {
	l, err := c.begin(w, id, args, true)
	if err != nil {
		return err
	}
	if w.entry, err = l.lookup(op, w); err == nil {
		if err = l.enqueue(w); err != nil {
			l.done(w.entry)
		}
	}
	if err != nil {
		return c.abandon(w, err)
	}
	if c.places {
		note(w.loc, w.results...)
	}
	return nil
}

// enqueue makes the results of a call and queues it.
func (l *lane) enqueue(w *work) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := w.expect(w.entry.outs); err != nil {
		return err
	}
	err := l.queue(w)
	if err != nil {
		for _, x := range w.results {
			x.rec.refs = 0
			x.rec.unuseLocked()
		}
	}
	return err
}

// begin takes the arguments and finds the lane. With consume, it consumes all of
// them, even if it fails. Its error is an *Error. An error that arose here is
// reported; one that an argument has was reported before.
func (c *Context) begin(w *work, id device.ID, args []Tensor, consume bool) (l *lane, err error) {
	var failed, wrong error
	w.args = w.argRoom[:0]
	for i, x := range args {
		switch {
		case x.IsZero():
			wrong = fmt.Errorf("argument %d is the zero Tensor", i)
		case x.refused():
			failed = x.Err()
		case !x.use(consume):
			wrong = fmt.Errorf("argument %d: %w", i, errConsumed)
		default:
			w.args = append(w.args, x.rec)
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
		if l = c.laneOf(w.args[0].home); l == nil {
			return nil, fmt.Errorf("argument 0 (%v) belongs to another context: copy it through the host", w.args[0].pool.meta)
		}
	} else if l, err = c.lane(id); err != nil {
		return nil, err
	}
	for i, a := range w.args {
		if a.home != &l.home {
			return nil, fmt.Errorf("argument %d (%v) is on %s, the call on %s: %w: use CopyTo", i, a.pool.meta, a.home.dev.ID(), l.dev.ID(), ErrDevice)
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
