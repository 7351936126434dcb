//go:build unix

package signals

import (
	"errors"
	"syscall"
)

// ClosedPipe reports whether a write failed because nobody reads the pipe any
// more.
func ClosedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
