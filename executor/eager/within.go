package eager

import (
	"fmt"
	"reflect"
	"runtime"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/internal/panics"
)

// guarded calls a function of the program.
func guarded(f func([]*tensor.Dense) error, args []*tensor.Dense) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the function panicked: %s", panics.Text(r))
		}
	}()
	return f(args)
}

// withinCall reports whether a function of Call has called, on its own goroutine.
func withinCall() bool {
	pcs := make([]uintptr, 64)
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			if f, more = frames.Next(); f.Entry == guardedEntry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// guardedEntry is the address of guarded.
var guardedEntry = reflect.ValueOf(guarded).Pointer()
