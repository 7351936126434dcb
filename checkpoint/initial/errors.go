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

// initError is an ErrInit with its cause; nil without one.
func initError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInit, err)
}
