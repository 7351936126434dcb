// Package panics words the panics of functions that a user's program brings.
package panics

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Text is the text of a recovered panic, with the line that panicked:
// "no rows (at /src/loss.go:12)". A deferred function calls it after it has recovered.
func Text(recovered any) string {
	if p, ok := recovered.(*Passed); ok {
		return p.text
	}
	if at := position(); at != "" {
		return fmt.Sprintf("%v (at %s)", recovered, at)
	}
	return fmt.Sprint(recovered)
}

// Passed is a panic that one goroutine recovered, for another to panic with. It is an error on its
// way there.
type Passed struct {
	text  string // as Text gives it
	stack []byte // of the goroutine that panicked
}

// Pass keeps a recovered panic for another goroutine. A deferred function calls it.
func Pass(recovered any) *Passed { return &Passed{Text(recovered), debug.Stack()} }

// Error has the stack, which the other goroutine's does not show.
func (p *Passed) Error() string {
	return fmt.Sprintf("%s\nin another goroutine:\n%s", p.text, p.stack)
}

// Keep makes a panic the error of a function that defers it.
func Keep(err *error) {
	if r := recover(); r != nil {
		*err = Pass(r)
	}
}

// Kept reports whether an error is a panic that Keep has kept.
func Kept(err error) bool {
	_, ok := errors.AsType[*Passed](err)
	return ok
}

// Raise panics with an error that Keep has kept.
func Raise(err error) {
	if p, ok := errors.AsType[*Passed](err); ok {
		panic(p)
	}
}

// position is the line that panicked as FILE:LINE; "" where the stack does not have it.
func position() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for panicked := false; ; {
		f, more := frames.Next()
		if panicked && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return ""
		}
		panicked = panicked || f.Function == "runtime.gopanic"
	}
}
