//go:build linux || freebsd

package cpu

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// yield lets other goroutines run, and other processes: where one of those has
// taken the core of a thread that is waited for, it goes on there later, and the
// thread here now.
func yield() {
	runtime.Gosched()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
