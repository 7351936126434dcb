package cl

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction, of any architecture.
type action [8]uintptr

const (
	signals  = 64
	maskSize = 8 // bytes of a set of signals
)

// handlers are the handlers of all signals before the first of the calls of drivers that
// are under way.
var handlers struct {
	sync.Mutex
	calls  int
	before [signals + 1]action
}

// keepSignals remembers the handlers of all signals, and gives a function that puts
// them back: PoCL replaces those of SIGSEGV, SIGINT, SIGTERM and others.
func keepSignals() (restore func()) {
	h := &handlers
	h.Lock()
	defer h.Unlock()
	if h.calls == 0 {
		for s := 1; s <= signals; s++ {
			sigaction(s, nil, &h.before[s])
		}
	}
	h.calls++
	return restoreSignals
}

func restoreSignals() {
	h := &handlers
	h.Lock()
	defer h.Unlock()
	h.calls--
	now := new(action)
	for s := 1; s <= signals; s++ {
		if sigaction(s, nil, now) && *now != h.before[s] {
			sigaction(s, &h.before[s], nil)
		}
	}
}

func sigaction(s int, set, get *action) (ok bool) {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), maskSize, 0, 0)
	return e == 0
}
