package eager

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/errs"
)

// The causes of errors that are not the device's or the op's.
var (
	ErrConsumed = errors.New("the tensor was consumed by an earlier call")
	ErrCanceled = errors.New("canceled")
	ErrClosed   = fmt.Errorf("the op-by-op context is %w", errs.ErrClosed)
	ErrDevice   = errors.New("tensor is on another device")
	// ErrBusy is the cause of errors about calls within a function of Call for which there
	// is no room.
	ErrBusy = errors.New("too many calls")
	// ErrNoGradient is the cause of errors about gradients that do not exist.
	ErrNoGradient = errors.New("no gradient")
)

// Error is the failure of a call. Calls that depend on it fail with the same
// Error, so it always names the call to look at.
type Error struct {
	Op  string // the op's kind, or another request: "to host"
	Loc Location
	Err error
}

// Error is "file:line: op: cause". A cause that begins with the op is not told it again.
func (e *Error) Error() string {
	if pos := e.Loc.Pos().String(); pos != "" {
		return pos + ": " + e.cause()
	}
	return e.cause()
}

// cause is Error without the place.
func (e *Error) cause() string {
	op := e.Op + ": "
	cause := e.Err.Error()
	for strings.HasPrefix(cause, op) {
		cause = cause[len(op):]
	}
	return op + cause
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Location is where a call was made. It is captured as one program counter
// and looked up only when an error is printed.
type Location struct {
	pc  uintptr
	pos graph.Pos
}

// Caller is the location of the function that calls Caller, or with skip > 0
// of one of its callers.
func Caller(skip int) Location {
	var pcs [1]uintptr
	runtime.Callers(skip+2, pcs[:])
	return Location{pc: pcs[0]}
}

// At is a location that the caller names, such as a line of a script.
func At(p graph.Pos) Location { return Location{pos: p} }

// Pos is the file and line.
func (l Location) Pos() graph.Pos {
	if l.pc == 0 {
		return l.pos
	}
	f, _ := runtime.CallersFrames([]uintptr{l.pc}).Next()
	return graph.Pos{File: f.File, Line: f.Line}
}
