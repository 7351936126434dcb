package osfile

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
)

// PidPath is where LeavePid leaves the number.
func PidPath(path string) string { return Beside(path, ".pid") }

// LeavePid leaves this process's number beside a file that it has locked, for processes
// that find it locked. The lock does not depend on it: a file of that name with other
// contents stays.
func LeavePid(path string) {
	if _, ours := readPid(path); !ours {
		if text, err := Read(PidPath(path), 64); err == nil && len(bytes.TrimSpace(text)) > 0 {
			return
		}
	}
	f, err := CreateFor(PidPath(path), PidPath(path))
	if err != nil {
		return
	}
	_, err = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	if errors.Join(err, f.Close()) != nil {
		_ = os.Remove(PidPath(path)) // it may be there, empty
	}
}

// RemovePid removes the number if it is this process's.
func RemovePid(path string) {
	if pid, ok := readPid(path); ok && pid == os.Getpid() {
		_ = os.Remove(PidPath(path))
	}
}

func readPid(path string) (int, bool) {
	b, err := Read(PidPath(path), 64)
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid, err == nil && pid > 0
}

// LeftPid is the process that last left its number beside the file, and whether it still
// runs; 0 if none is left. If it runs no more, another process, such as a reader, holds the lock.
func LeftPid(path string) (pid int, alive bool) {
	pid, ok := readPid(path)
	if !ok {
		return 0, false
	}
	return pid, ProcessExists(pid)
}
