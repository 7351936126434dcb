package command

import "golang.org/x/sys/unix"

// limitMemory bounds the memory that a process writes to, in bytes.
func limitMemory(pid int, most uint64) error {
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil)
}
