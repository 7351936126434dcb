package graph

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrOp is the cause of errors about a method of an op that is not one of this module.
var ErrOp = errors.New("op")

// opError is an ErrOp whose text has no prefix.
type opError struct{ text string }

func (e opError) Error() string { return e.text }

func (e opError) Unwrap() error { return ErrOp }

// guard calls a method of an op. A panic of an op that brings its kernel is an error: the
// op is not one of this module, where a panic is a defect.
func guard(op Op, method string, call func()) (err error) {
	if BringsKernel(op) {
		defer func() {
			if r := recover(); r != nil {
				err = opError{fmt.Sprintf("the op %s panicked in %s: %v\n%s", op.Kind(), method, r, debug.Stack())}
			}
		}()
	}
	call()
	return nil
}

// wrong is the error of a method whose result does not fit.
func wrong(op Op, method, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if BringsKernel(op) {
		return opError{fmt.Sprintf("the op %s: its %s gives %s", op.Kind(), method, text)}
	}
	return fmt.Errorf("BUG: %s of %s gives %s", method, op.Kind(), text)
}
