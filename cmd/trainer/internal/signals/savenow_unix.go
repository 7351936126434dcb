//go:build unix

package signals

import (
	"os"
	"syscall"
)

// The signals that ask for a checkpoint, and for a stop of several processes.
var (
	saveSignal  os.Signal = syscall.SIGUSR1
	user2Signal os.Signal = syscall.SIGUSR2
)
