package initial

import (
	"errors"
	"fmt"
)

// The causes of errors about first contents.
var (
	// ErrInit: a file of weights that cannot be read, or does not fit the model.
	ErrInit = errors.New("the initial weights cannot be used")
	// ErrChanged: a checkpoint of another model, or of another run.
	ErrChanged = errors.New("the run has changed since the checkpoint")
)

// ReadError is an ErrInit: contents of the file could not be read.
type ReadError struct{ Err error }

// Error says why, with the file's name.
func (e *ReadError) Error() string { return fmt.Sprintf("%v: %v", ErrInit, e.Err) }

// Unwrap is ErrInit and the cause.
func (e *ReadError) Unwrap() []error { return []error{ErrInit, e.Err} }

// readError is a ReadError with its cause; nil without one.
func readError(err error) error {
	if err == nil {
		return nil
	}
	return &ReadError{err}
}
