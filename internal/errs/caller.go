package errs

import (
	"context"
	"fmt"
)

// NotOpened is the error of a method of a nil value, or of one that its program made itself:
// from is the function that gives a value that works.
func NotOpened(what, from string) error {
	return fmt.Errorf("%w: this %s was never opened: call %s, and check its error before using the result", ErrOptions, what, from)
}

// CheckContext refuses a nil context.
func CheckContext(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: the context is nil: pass context.Background() where nothing ends the call", ErrOptions)
	}
	return nil
}

// CheckFunction refuses a nil function, by the name of its parameter.
func CheckFunction(name string, isNil bool) error {
	if isNil {
		return fmt.Errorf("%w: the function %s is nil: pass one", ErrOptions, name)
	}
	return nil
}
