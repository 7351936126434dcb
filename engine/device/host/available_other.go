//go:build !linux && !darwin && !freebsd && !windows

package host

import (
	"errors"
	"runtime"
)

// errNotAsked is the error of both: each system tells its memory in another way.
var errNotAsked = errors.New("not supported on " + runtime.GOOS)

// systemMemory is not known.
func systemMemory() (int64, error) { return 0, errNotAsked }

// machineMemory is not known.
func machineMemory() (int64, error) { return 0, errNotAsked }
