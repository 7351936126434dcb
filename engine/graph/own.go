package graph

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/internal/panics"
)

// ErrOp is the cause of errors about a method of an op that is not one of this module.
var ErrOp = errors.New("op")

// opError is an ErrOp whose text has no prefix.
type opError struct{ text string }

func (e opError) Error() string { return e.text }

func (e opError) Unwrap() error { return ErrOp }

// guard calls a method of an op. A panic of an op that a program brings is an error: it
// is not one of this module, where a panic is a defect.
func guard(op Op, method string, call func()) (err error) {
	if brought(op) {
		return guarded(op.Kind(), method, call)
	}
	call()
	return nil
}

// guarded calls a method of a program's op. A panic of it is an error.
func guarded(kind, method string, call func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = opError{fmt.Sprintf("the op %s panicked in %s: %s", kind, method, panics.Text(r))}
		}
	}()
	call()
	return nil
}

// brought reports whether an op is a program's: it brings its kernel, or its parts.
func brought(op Op) bool {
	_, composite := op.(Composite)
	return composite || BringsKernel(op)
}

// wrong is the error of a method whose result does not fit.
func wrong(op Op, method, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if brought(op) {
		return opError{fmt.Sprintf("the op %s: its %s gives %s", op.Kind(), method, text)}
	}
	return fmt.Errorf("BUG: %s of %s gives %s", method, op.Kind(), text)
}
