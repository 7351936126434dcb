package executor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// rest is how a runtime's work stands still. The runtime owns it.
type rest struct {
	gate  *Gate           // nil: it never stands still
	until context.Context // ends the standing, as the context of the call does; nil: that alone does
	since time.Time       // when it began to stand still; zero: it works
	stood time.Duration   // before

	began time.Time    // of the turn: when it got its memory
	first atomic.Int64 // nanoseconds from then to the end of the first step; 0: that has not ended
}

const (
	// leastTurn is how long work goes on at least while others wait that take turns with it.
	leastTurn = time.Second
	// perFirst is how many times as long as its first step a turn is at least: in that step the tensors come back. So
	// about a tenth of all time goes into the change of turns, however large the tensors are.
	perFirst = 10
)

// SetGate has the runtime stand still while a gate is closed.
func (r *Runtime) SetGate(g *Gate) { r.rest.gate = g }

// RestUntil ends the standing, also of work that nothing else ends, with ctx: Rest then fails with
// ErrSuspended.
func (r *Runtime) RestUntil(ctx context.Context) { r.rest.until = ctx }

// MustRest reports whether the next step must wait for Rest.
func (r *Runtime) MustRest() bool {
	return r.rest.gate.Closed() || !r.rest.since.IsZero() || r.TurnOver()
}

// TurnOver reports whether others wait for the memory of work that has had its turn.
func (r *Runtime) TurnOver() bool {
	first := time.Duration(r.rest.first.Load())
	return r.Residency.Wanted() && first > 0 && time.Since(r.rest.began) >= max(leastTurn, perFirst*first)
}

// stepEnded notes the end of a turn's first step. Steps of several programs may end at once.
func (r *rest) stepEnded() {
	if r.first.Load() == 0 {
		r.first.CompareAndSwap(0, max(1, int64(time.Since(r.began))))
	}
}

// beginTurn begins a turn. No step is queued.
func (r *rest) beginTurn() {
	r.began = time.Now()
	r.first.Store(0)
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

// Rest stands still while the runtime is suspended, and then waits for its memory as [Devices.Join] does. It also gives the
// memory to others that take turns with it once its turn is over, and waits for the next. No step may be queued. It fails with ErrSuspended, and the memory given up, once ctx ends, or that of
// RestUntil.
func (r *Runtime) Rest(ctx context.Context) error {
	return r.RestWith(ctx, func(ctx context.Context, opens <-chan struct{}) error {
		select {
		case <-opens:
			return nil
		case <-ctx.Done():
			return EndedAtRest(ctx)
		}
	})
}

// EndedAtRest is the ErrSuspended of a context that ended while work stood still.
func EndedAtRest(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrSuspended, context.Cause(ctx))
}

// RestWith is Rest with a function that stands still until opens is closed, or ctx ends. Its error ends
// the standing.
func (r *Runtime) RestWith(ctx context.Context, stand func(ctx context.Context, opens <-chan struct{}) error) error {
	if !r.MustRest() {
		return nil
	}
	if r.TurnOver() {
		r.Stand()
	}
	ctx, cancel := r.within(ctx)
	defer cancel()
	err := r.rest.gate.Pass(ctx, func(opens <-chan struct{}) error {
		r.Stand()
		return stand(ctx, opens)
	}, func(ctx context.Context) error {
		err := r.Residency.Continue(ctx)
		if err == nil {
			r.rest.stood, r.rest.since = r.Stood(), time.Time{}
			r.rest.beginTurn()
		}
		return err
	})
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrSuspended) {
		return fmt.Errorf("%w: %w", ErrSuspended, err)
	}
	return err
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
