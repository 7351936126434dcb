package executor

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rest is how a runtime's work stands still. The runtime owns it.
type rest struct {
	gate  *Gate           // nil: it never stands still
	until context.Context // ends the standing, as the context of the call does; nil: that alone does
	since time.Time       // when it began to stand still; zero: it works
	stood time.Duration   // before
}

// SetGate has the runtime stand still while a gate is closed.
func (r *Runtime) SetGate(g *Gate) { r.rest.gate = g }

// RestUntil ends the standing, also of work that nothing else ends, with ctx: Rest then fails with
// ErrSuspended.
func (r *Runtime) RestUntil(ctx context.Context) { r.rest.until = ctx }

// MustRest reports whether the next step must wait for Rest.
func (r *Runtime) MustRest() bool {
	return r.rest.gate.Closed() || !r.rest.since.IsZero()
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

// Rest stands still while the runtime is suspended, and then waits for its memory as [Devices.Join] does.
// No step may be queued. It fails with ErrSuspended, and the memory given up, once ctx ends, or that of
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
	ctx, cancel := r.within(ctx)
	defer cancel()
	err := r.rest.gate.Pass(ctx, func(opens <-chan struct{}) error {
		r.Stand()
		return stand(ctx, opens)
	}, func(ctx context.Context) error {
		err := r.Residency.Continue(ctx)
		if err == nil {
			r.rest.stood, r.rest.since = r.Stood(), time.Time{}
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
