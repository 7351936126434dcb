package signals

import (
	"os"
	"os/signal"
)

// SaveNow asks for a checkpoint whenever SIGUSR1 comes, where the system has
// that signal. The caller calls undo.
func SaveNow() (asked <-chan struct{}, undo func()) {
	c, out, done := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	if saveSignal == nil {
		return out, func() {}
	}
	signal.Notify(c, saveSignal)
	go func() {
		for {
			select {
			case <-c:
				select {
				case out <- struct{}{}:
				default: // a checkpoint is asked for already
				}
			case <-done:
				return
			}
		}
	}()
	return out, func() {
		signal.Stop(c)
		close(done)
	}
}
