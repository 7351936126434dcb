package command

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// endsWithUs has a process killed when the thread that started it ends, as by a kill of the server.
var endsWithUs = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// limitMemory bounds the memory that a process writes to, in bytes.
func limitMemory(pid int, most uint64) error {
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil)
}
