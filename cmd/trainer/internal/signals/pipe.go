package signals

import (
	"os"
	"os/signal"
	"syscall"
)

// FailOnClosedPipe has a write to a pipe that nobody reads any more fail, where
// it would otherwise end the process. The caller calls undo.
func FailOnClosedPipe() (undo func()) {
	c := make(chan os.Signal, 1) // never read: the write's error is enough
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
