package eager

import (
	"context"
	"fmt"
	"runtime"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/errs"
)

// work is a call that is queued in a lane or runs aside, or one that has failed already. The
// records of its results and its chain point to it, to wait for its end and for its error.
type work struct {
	lane  *lane         // in which it is queued; nil for another call
	seq   uint64        // its number there, from 1
	ended chan struct{} // of a call that runs aside: closed when it has ended
	err   error         // valid once it has ended

	era     *era
	what    string // the op's kind or "to host", for errors
	loc     Location
	entry   *entry
	args    []Tensor // with one use each; nil once launched
	after   *Chain
	results []Tensor
	long    bool // it may take long, or wait for other than calls of the lane
	event   device.Event

	// Room for the usual call, so that it is one allocation.
	argRoom    [4]Tensor
	resultRoom [2]Tensor
}

// deviceHandler is the handler that runs calls on devices.
type deviceHandler struct{ context *Context }

// Execute makes the call.
func (h *deviceHandler) Execute(inv *Invocation) {
	results, made, err := h.context.submit(&call{op: inv.Op, on: inv.Device, after: inv.Chain, loc: &inv.Loc}, inv.Args, inv.Results)
	if err != nil {
		inv.poison(err)
		return
	}
	inv.Results = results
	if inv.Chain != nil {
		inv.Chain = &Chain{made}
	}
}

// call is a call of an op on its way through submit, without its arguments: those do not escape
// to the heap.
type call struct {
	op    graph.Op
	on    device.ID // "" for the device of the arguments, or the first
	after *Chain
	loc   *Location // nil: submit finds it
	skip  int       // then the number of callers between the program and the caller of submit
}

// where is the location of the call. To find it costs as much as a short op, so it is asked for
// where it is needed only. Only submit calls it: it counts the callers above.
func (k *call) where() Location {
	if k.loc != nil {
		return *k.loc
	}
	return Caller(k.skip + 2)
}

// submit makes a call, and consumes its arguments. A short call that nothing delays runs at once,
// on this goroutine: its results are in room, if that is large enough, and it allocates nothing.
// Any other call is queued in its lane: its results are in the work that the lane gets. made tells
// how the call ends; nil if it has succeeded already. The error is of a call that is refused.
func (c *Context) submit(k *call, args, room []Tensor) (results []Tensor, made *work, err error) {
	l, of, err := c.begin(k.on, args)
	if l == nil {
		return nil, nil, c.refuse(kindOf(k.op), k.where(), args, err)
	}
	ran := false
	e := l.cache.usual(k.op, args)
	if e != nil {
		e.pending++
	} else {
		e, err = l.lookup(k.op, args, of)
	}
	if err == nil && l.ready(e, k.after, args) {
		var failed error
		if results, ran, failed = l.runNow(e, args, room); failed != nil {
			made = l.fail(results, &Error{Op: k.op.Kind(), Loc: k.where(), Err: failed})
		}
	}
	if err == nil && !ran {
		w := &work{what: k.op.Kind(), loc: k.where(), after: k.after, era: of, entry: e}
		err = l.enqueue(w, args)
		results, made = w.results, w
	}
	over := false
	if ran || err != nil {
		unuse(args)
		over = e != nil && e.ended()
	}
	l.mu.Unlock()
	if over {
		e.release()
	}
	if err != nil {
		return nil, nil, c.failed(kindOf(k.op), k.where(), err)
	}
	if ran && made != nil {
		c.report(made.err)
	}
	if c.places {
		remember(k.where(), results...)
	}
	return results, made, nil
}

// begin finds the lane of a call, checks that all arguments are there, and uses and consumes them.
// The caller unlocks the lane's mu. If there is no lane, nothing is locked and nothing has changed:
// the caller refuses the call. Without an error, an argument is of a call that was refused.
func (c *Context) begin(on device.ID, args []Tensor) (l *lane, of *era, err error) {
	for _, x := range args {
		if x.refused() {
			return nil, nil, nil
		}
	}
	if of = c.era.Load(); of.over.Load() {
		return nil, nil, context.Cause(of)
	}
	if len(args) > 0 && on == "" {
		if l = args[0].rec.lane; l.context != c {
			return nil, nil, fmt.Errorf("argument 0 (%v) belongs to another context: copy it through the host", args[0].rec.pool.meta)
		}
	} else if l, err = c.lane(on); err != nil {
		return nil, nil, err
	}
	for i, x := range args {
		if x.rec.lane != l {
			return nil, nil, fmt.Errorf("argument %d (%v) is on %s, the call on %s: %w: use CopyTo", i, x.rec.pool.meta, x.rec.lane.dev.ID(), l.dev.ID(), ErrDevice)
		}
	}
	l.mu.Lock()
	if i := use(args); i >= 0 {
		l.mu.Unlock()
		return nil, nil, consumed(i)
	}
	return l, of, nil
}

// refuse consumes the arguments of a call that did not begin. The error is what is wrong with them,
// or else err, or else the failure of an argument, which was reported before.
func (c *Context) refuse(what string, loc Location, args []Tensor, err error) error {
	var failed error
	for i, x := range args {
		switch {
		case x.IsZero():
			err = fmt.Errorf("argument %d is the zero Tensor: pass the result of a call or of FromHost", i)
		case x.refused():
			failed = x.Err()
		case x.Release() != nil:
			err = consumed(i)
		}
	}
	if err == nil {
		return failed
	}
	return c.failed(what, loc, err)
}

// consumed is the error of a call whose argument i was consumed before.
func consumed(i int) error { return fmt.Errorf("argument %d: %w", i, errConsumed) }

// abandon ends a call that was not queued. It reports and returns its error.
func (c *Context) abandon(w *work, cause error) error {
	w.unuse()
	return c.failed(w.what, w.loc, cause)
}

// use uses and consumes each argument, and returns -1. If one has no reference left, it changes
// nothing and returns its index. It needs the lane's mu.
func use(args []Tensor) (bad int) {
	for i, x := range args {
		if !x.live() {
			for _, y := range args[:i] {
				y.rec.refs++
				y.rec.uses--
			}
			return i
		}
		x.rec.refs--
		x.rec.uses++
	}
	return -1
}

// unuse ends the use of tensors. It needs the lane's mu.
func unuse(list []Tensor) {
	for _, x := range list {
		x.rec.unuseLocked()
	}
}

// ready reports whether a call can run at once: it is short, the lane has nothing else to do, and
// all that the call needs is there. It needs mu, which it may leave meanwhile.
func (l *lane) ready(e *entry, after *Chain, args []Tensor) bool {
	if !e.short || !after.free() || !l.settle() || l.runner == nil { // runner is the lane's until it is idle
		return false
	}
	for _, x := range args {
		if x.rec.made != nil {
			return false
		}
	}
	return true
}

// settleSpins bounds how often settle looks whether queued calls have ended.
const settleSpins = 100

// settle waits a moment for the calls that are queued, if all are short: a program that is
// ahead of the lane, such as by the time that compiling took, would stay ahead. It needs mu.
func (l *lane) settle() bool {
	for range settleSpins {
		if l.idle() {
			return true
		}
		if l.long > 0 || l.closed {
			return false
		}
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	return false
}

// enqueue makes the results of a call, whose arguments are used, and queues it. It needs mu.
func (l *lane) enqueue(w *work, args []Tensor) (err error) {
	w.lane = l
	w.args = append(w.argRoom[:0], args...)
	if w.results, err = l.expect(w.entry, 0, w.resultRoom[:0]); err != nil {
		return err
	}
	for _, x := range w.results {
		x.rec.uses, x.rec.made = 1, w
	}
	if err = l.queue(w); err != nil {
		l.giveUp(w.results)
	}
	return err
}

// unuse ends the use of the arguments.
func (w *work) unuse() {
	for _, x := range w.args {
		x.rec.unuse()
	}
	w.args = nil
	w.argRoom = [len(w.argRoom)]Tensor{}
}

// waits reports whether the call waits for one that is not in its lane. It needs the lane's
// mu.
func (w *work) waits() bool {
	if w.after != nil && !w.after.made.done() {
		return true
	}
	for _, x := range w.args {
		if made := x.rec.made; made != nil && made.lane != w.lane {
			return true
		}
	}
	return false
}

// follows reports whether the call depends on p directly.
func (w *work) follows(p *work) bool {
	if w.after != nil && w.after.made == p {
		return true
	}
	for _, x := range w.args {
		if x.rec.maker() == p {
			return true
		}
	}
	return false
}

// done reports whether the call has ended. The zero Chain's always has, and so
// has a call that failed before it was queued.
func (w *work) done() bool {
	switch {
	case w == nil:
		return true
	case w.ended != nil:
		select {
		case <-w.ended:
			return true
		default:
			return false
		}
	}
	return w.lane == nil || w.lane.progress.done(w.seq)
}

// failure is the call's failure, nil while it is not known.
func (w *work) failure() error {
	if w == nil || !w.done() {
		return nil
	}
	return w.err
}

// wait blocks until the call has ended. Its error is the call's, or ctx's cause.
func (w *work) wait(ctx context.Context) error {
	if err := errs.CheckContext(ctx); err != nil {
		return err
	}
	switch {
	case w.done():
	case w.ended != nil:
		select {
		case <-w.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
		if err := w.lane.progress.await(ctx, w.seq); err != nil {
			return err
		}
	}
	return w.failure()
}

// Chain orders calls with side effects: a call that is given a chain runs
// when the call that made the chain has ended, and fails if that failed. The
// zero Chain and a nil one have always ended. Unlike tensors, chains are not counted.
type Chain struct{ made *work }

// free reports whether a call with this chain need not wait and cannot fail by it. The
// chain may be nil.
func (c *Chain) free() bool { return c == nil || c.made.done() && c.made.failure() == nil }

// Wait blocks until the call that made the chain has ended and returns its
// failure, or ctx's error if that came first.
func (c *Chain) Wait(ctx context.Context) error { return c.work().wait(ctx) }

// Err is the failure, nil while it is not known.
func (c *Chain) Err() error { return c.work().failure() }

// work returns the call that made the chain, nil if there is none.
func (c *Chain) work() *work {
	if c == nil {
		return nil
	}
	return c.made
}
