package cl

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction, of any architecture.
type action [8]uintptr

const (
	signals  = 64
	maskSize = 8 // bytes of a set of signals
)

// keepSignals remembers the handlers of all signals, and gives a function that puts
// them back: PoCL replaces those of SIGSEGV, SIGINT, SIGTERM and others.
func keepSignals() (restore func()) {
	before := new([signals + 1]action)
	for s := 1; s <= signals; s++ {
		sigaction(s, nil, &before[s])
	}
	return func() {
		for s := 1; s <= signals; s++ {
			var now action
			if sigaction(s, nil, &now) && now != before[s] {
				sigaction(s, &before[s], nil)
			}
		}
	}
}

func sigaction(s int, set, get *action) (ok bool) {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), maskSize, 0, 0)
	return e == 0
}
