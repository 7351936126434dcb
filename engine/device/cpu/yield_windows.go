package cpu

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/windows"
)

var switchToThread = windows.NewLazySystemDLL("kernel32.dll").NewProc("SwitchToThread")

// yield lets other goroutines run, and other threads that are ready on this
// core.
func yield() {
	runtime.Gosched()
	syscall.SyscallN(switchToThread.Addr())
}
