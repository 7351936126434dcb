package signals

import (
	"errors"

	"golang.org/x/sys/windows"
)

// ClosedPipe reports whether a write failed because nobody reads the pipe any
// more.
func ClosedPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}
