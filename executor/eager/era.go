package eager

import (
	"context"
	"sync/atomic"
)

// era is the time between two Restarts: the calls made in it are canceled
// together.
type era struct {
	context.Context
	over atomic.Bool // it is canceled; cheaper to ask than Context
	end  context.CancelCauseFunc
}

func newEra() *era {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &era{Context: ctx, end: cancel}
}

// cancel ends the era, the first time.
func (e *era) cancel(cause error) {
	e.end(cause)
	e.over.Store(true)
}

// ended is the cause of the cancellation, nil while there is none. Building and compiling ask it.
func (e *era) ended() error { return context.Cause(e) }

// cause is the error of a call that met err while it waited with the era: the cause of
// the cancellation, if it was canceled.
func (e *era) cause(err error) error {
	if c := context.Cause(e); c != nil {
		return c
	}
	return err
}
