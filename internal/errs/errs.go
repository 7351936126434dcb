// Package errs has the errors that calls of a program return, for the packages that
// do the work of the public face. Package berth gives them to programs under its own
// names, such as berth.ErrOptions.
package errs

import (
	"context"
	"errors"
)

// The causes of errors of calls.
var (
	ErrOptions = errors.New("these options cannot be used") // alone, or not with each other
	ErrData    = errors.New("the data cannot be used")
	ErrClosed  = errors.New("closed already")
	ErrInUse   = errors.New("the run is in use: wait until its methods have returned, and close a Training that is open")
	ErrStopped = errors.New("stopped")
	ErrBusy    = errors.New("the service is busy: as many requests wait as it allows, so try again later")
)

// With is err together with a cause that its text leaves out, or words itself:
// ErrStopped with the reason why the context ended, a malformed file with ErrData.
func With(err, cause error) error { return &withCause{err, cause} }

type withCause struct {
	error
	cause error
}

func (e *withCause) Unwrap() []error { return []error{e.error, e.cause} }

// Ended is the cause of ctx's end if err follows from that end; otherwise nil.
func Ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) {
		return cause
	}
	return nil
}
