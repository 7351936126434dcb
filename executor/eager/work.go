package eager

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// work is one call in a lane: an op to launch, or a copy or host function to
// do. Its results' handles point to it.
type work struct {
	lane    *lane
	seq     uint64 // its place in the lane, from 1
	era     *era
	what    string // for errors
	loc     Location
	op      graph.Op
	entry   *entry
	args    []*Tensor // with one use each; nil once launched
	after   *Chain
	results []*Tensor
	do      func() error      // for what is no launch: called with nothing in flight
	staged  device.HostBuffer // what do copies in; freed with the arguments' uses
	event   device.Event
	err     error // valid once retired

	// Room for the usual call, so that it is one allocation.
	argRoom    [4]*Tensor
	resultRoom [2]*Tensor
	first      Tensor
}

// done reports whether the call has ended. That of the zero Chain always has,
// and so has a call that failed before it had a lane.
func (w *work) done() bool {
	return w == nil || w.lane == nil || w.lane.retired.Load() >= w.seq
}

// failure is the call's failure, nil while it is not known.
func (w *work) failure() error {
	if w == nil || !w.done() {
		return nil
	}
	return w.err
}

// wait blocks until the call has ended.
func (w *work) wait(ctx context.Context) error {
	if !w.done() {
		if err := w.lane.await(ctx, w.seq); err != nil {
			return err
		}
	}
	return w.failure()
}

// begin takes the arguments and finds the lane. Consumed are all of them, also
// when it fails. Its error is an *Error, and reported if it arose here.
func (c *Context) begin(w *work, id device.ID, args []*Tensor, consume bool) error {
	by := oneUse
	if consume {
		by -= oneRef
	}
	var failed, wrong error
	w.args = w.argRoom[:0]
	for i, a := range args {
		switch {
		case a == nil || a.work == nil:
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
		wrong = c.place(w, id)
	}
	if wrong != nil {
		return c.abandon(w, wrong)
	}
	if failed != nil {
		w.unuse()
	}
	return failed
}

// place finds the lane of a call and checks that all arguments are there.
func (c *Context) place(w *work, id device.ID) (err error) {
	w.era = c.era.Load()
	if err := context.Cause(w.era); err != nil {
		return err
	}
	if len(w.args) > 0 && id == "" {
		w.lane = w.args[0].work.lane
		if w.lane.context != c {
			return fmt.Errorf("argument 0 (%v) belongs to another context: copy it through the host", w.args[0].meta)
		}
	} else if w.lane, err = c.lane(id); err != nil {
		return err
	}
	for i, a := range w.args {
		if a.work.lane != w.lane {
			return fmt.Errorf("argument %d (%v) is on %s, the call on %s: %w: use CopyTo", i, a.meta, a.Device(), w.lane.dev.ID(), ErrDevice)
		}
	}
	return nil
}

// abandon ends a call that was not queued and returns its error, reported.
func (c *Context) abandon(w *work, cause error) error {
	w.unuse()
	err := &Error{Op: w.what, Loc: w.loc, Err: cause}
	c.report(err)
	return err
}

// expect makes the handles of the results, each with one reference for the
// caller and a use until it is launched.
func (w *work) expect(outs []shape.Meta) {
	w.results = w.resultRoom[:0]
	for k, m := range outs {
		t := &w.first
		if k > 0 {
			t = new(Tensor)
		}
		t.work, t.meta = w, m
		t.count.Store(oneRef + oneUse)
		w.results = append(w.results, t)
	}
}

// unuse ends the use of the arguments. A copy from the host has ended by now.
func (w *work) unuse() {
	for _, a := range w.args {
		a.unuse()
	}
	if w.staged != nil {
		if err := w.staged.Free(); err != nil && !errors.Is(err, device.ErrDeleted) {
			panic(fmt.Sprintf("BUG: freeing a host buffer: %v", err))
		}
		w.staged = nil
	}
	w.args = nil
	w.argRoom = [len(w.argRoom)]*Tensor{}
}

// follows reports whether the call depends on p directly.
func (w *work) follows(p *work) bool {
	if w.after != nil && w.after.work == p {
		return true
	}
	for _, a := range w.args {
		if a.work == p {
			return true
		}
	}
	return false
}

// blocked is why the call must not run, if that is known. It waits for what
// other lanes do first.
func (w *work) blocked() error {
	for _, a := range w.args {
		if err := w.lane.known(a.work); err != nil {
			return err
		}
	}
	if w.after != nil {
		if err := w.lane.known(w.after.work); err != nil {
			return err
		}
	}
	if err := context.Cause(w.era); err != nil {
		return &Error{Op: w.what, Loc: w.loc, Err: err}
	}
	if w.lane.broken != nil {
		return &Error{Op: w.what, Loc: w.loc, Err: w.lane.broken}
	}
	return nil
}

// launch takes memory for the results and queues the op on the stream. An
// argument to which this call has the last claim gives its memory where the op
// can use it.
func (w *work) launch() error {
	l, e := w.lane, w.entry
	var donated uint64
	for k, j := range e.alias {
		if j >= 0 && w.args[j].last() {
			donated |= 1 << k
		}
	}
	exe, err := e.executable(l.dev, donated)
	if err != nil {
		return err
	}
	l.in, l.out = l.in[:0], l.out[:0]
	for _, a := range w.args {
		l.in = append(l.in, a.buf)
	}
	for k, m := range e.outs {
		var b device.Buffer
		if donated>>k&1 == 1 {
			b = l.in[e.alias[k]]
		} else if b, err = l.dev.Alloc(m, device.Activation); err != nil {
			return l.undo(donated, err)
		}
		l.out = append(l.out, b)
	}
	if w.event, err = l.stream.Launch(exe, l.in, l.out); err != nil {
		return l.undo(donated, err)
	}
	for k, b := range l.out {
		if donated>>k&1 == 1 {
			w.args[e.alias[k]].take()
		}
		w.results[k].hold(b)
	}
	return nil
}
