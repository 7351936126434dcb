package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// rest is how a runtime's work stands still. The runtime owns it.
type rest struct {
	gate  *Gate           // nil: it never stands still
	halt  func() error    // of SetHalt; nil: nothing goes on beside the work
	until context.Context // ends the standing, as the context of the call does; nil: that alone does
	since time.Time       // when it began to stand still; zero: it works
	stood time.Duration   // before

	turn turn
}

// turn is how long work has had its memory while others take turns with it.
type turn struct {
	began time.Time    // its first step; zero: it has taken none
	first atomic.Int64 // nanoseconds of that; 0: it has not ended
}

const (
	// leastTurn is how long work goes on at least while others wait that take turns with it.
	leastTurn = time.Second
	// perFirst is how many times as long as its first step a turn is: in that step the tensors come back. So
	// about a tenth of all time goes into the change of turns, however large the tensors are.
	perFirst = 10
	// mostTurn bounds that, where steps are long.
	mostTurn = 5 * time.Minute
)

// step notes that a step begins.
func (t *turn) step() {
	if t.began.IsZero() {
		t.began = time.Now()
	}
}

// stepped notes that a step has ended. Steps of several programs may end at once.
func (t *turn) stepped() {
	if t.first.Load() == 0 {
		t.first.CompareAndSwap(0, max(1, int64(time.Since(t.began))))
	}
}

// begin begins a turn. No step is queued.
func (t *turn) begin() {
	t.began = time.Time{}
	t.first.Store(0)
}

// over reports whether the turn has lasted long enough: a step has ended, and its time is over.
func (t *turn) over() bool {
	first := time.Duration(t.first.Load())
	return first > 0 && time.Since(t.began) >= lasts(first)
}

// lasts is how long a turn goes on whose first step took so long.
func lasts(first time.Duration) time.Duration {
	return max(leastTurn, min(perFirst*first, mostTurn))
}

// SetGate has the runtime stand still while a gate is closed.
func (r *Runtime) SetGate(g *Gate) { r.rest.gate = g }

// SetHalt has Rest call halt, which ends what must not go on while the runtime is suspended, before Suspend returns. Its error
// ends the standing.
func (r *Runtime) SetHalt(halt func() error) { r.rest.halt = halt }

// RestUntil ends the standing, also of work that nothing else ends, with ctx: Rest then fails with
// ErrSuspended.
func (r *Runtime) RestUntil(ctx context.Context) { r.rest.until = ctx }

// MustRest reports whether the next step must wait for Rest. While nobody waits for the memory of the work, it takes no lock
// but the gate's.
func (r *Runtime) MustRest() bool {
	return r.rest.gate.Closed() || !r.rest.since.IsZero() || r.turnOver()
}

// turnOver reports whether others get the memory of work that has had its turn. Work that is to end keeps it.
func (r *Runtime) turnOver() bool {
	until := r.rest.until
	return r.Residency.Wanted() && r.rest.turn.over() && (until == nil || until.Err() == nil) && r.Residency.Due()
}

// Stood is the time for which the runtime has stood still so far.
func (r *Runtime) Stood() time.Duration {
	if r.rest.since.IsZero() {
		return r.rest.stood
	}
	return r.rest.stood + time.Since(r.rest.since)
}

// Stand gives the memory of the runtime up that others may have: its tensors leave the devices where they
// need the room. No step may be queued. Before the next one, call Rest.
func (r *Runtime) Stand() {
	if r.rest.since.IsZero() {
		r.rest.since = time.Now()
	}
	_ = r.Residency.Settle() // copies that failed are told when their tensors are used
	r.Residency.Suspend()
}

// Rest stands still while the runtime is suspended, and then waits for its memory as [Devices.Join] does. Once the turn of
// work that takes turns is over, it gives the memory to others, and waits for the next turn. No step may be queued. It fails
// with ErrSuspended, and the memory given up, once ctx ends, or that of RestUntil.
func (r *Runtime) Rest(ctx context.Context) error {
	return r.RestWith(ctx, StandUntil)
}

// StandUntil waits until opens is closed. It fails with ErrSuspended if ctx ends before.
func StandUntil(ctx context.Context, opens <-chan struct{}) error {
	select {
	case <-opens:
		return nil
	case <-ctx.Done():
		return EndedAtRest(ctx)
	}
}

// EndedAtRest is the ErrSuspended of a context that ended while work stood still.
func EndedAtRest(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrSuspended, context.Cause(ctx))
}

// RestWith is Rest with a function that stands still until opens is closed, or ctx ends, as StandUntil does: while the runtime
// is suspended, and while it waits for memory. Its error ends the standing.
func (r *Runtime) RestWith(ctx context.Context, stand func(ctx context.Context, opens <-chan struct{}) error) error {
	if !r.MustRest() {
		return nil
	}
	ctx, cancel := r.within(ctx)
	defer cancel()
	if !r.rest.gate.Closed() && r.rest.since.IsZero() && (ctx.Err() != nil || !r.turnOver() || !r.yield()) {
		return nil
	}
	err := r.rest.gate.Pass(ctx, Passage{
		Halt: func() (err error) {
			if r.rest.halt != nil {
				err = r.rest.halt()
			}
			r.Stand()
			return err
		},
		Stand: func(opens <-chan struct{}) error { return stand(ctx, opens) },
		Take:  func(ctx context.Context) error { return r.goOn(ctx, stand) },
	})
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrSuspended) {
		return fmt.Errorf("%w: %w", ErrSuspended, err)
	}
	return err
}

// yield gives the memory of work whose turn is over to others, if they still want it.
func (r *Runtime) yield() bool {
	_ = r.Residency.Settle() // as Stand
	if !r.Residency.Yield() {
		return false
	}
	r.rest.since = time.Now()
	return true
}

// goOn waits for memory, as stand does meanwhile. After an error the memory is given up.
func (r *Runtime) goOn(ctx context.Context, stand func(ctx context.Context, opens <-chan struct{}) error) error {
	if err := r.Residency.Rejoin(); err != nil { // here, since observers are told from one goroutine
		return err
	}
	waiting, giveUp := context.WithCancelCause(ctx)
	var failed error
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		failed = r.Residency.Continue(waiting)
	}()
	var err error
	func() {
		defer func() { // also where stand panics
			giveUp(err)
			<-ready
		}()
		err = stand(ctx, ready)
	}()
	if err = cmp.Or(err, failed); err != nil {
		r.Residency.Suspend()
		return err
	}
	r.rest.stood, r.rest.since = r.Stood(), time.Time{}
	r.rest.turn.begin()
	return nil
}

// within is a context that also ends with RestUntil's.
func (r *Runtime) within(ctx context.Context) (context.Context, func()) {
	until := r.rest.until
	if until == nil {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(until, func() { end(context.Cause(until)) })
	return ctx, func() {
		stop()
		end(nil)
	}
}
