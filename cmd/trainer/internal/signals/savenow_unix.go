//go:build unix

package signals

import (
	"os"
	"syscall"
)

var saveSignal os.Signal = syscall.SIGUSR1
