package prompt

import (
	"runtime"
	"sync"
)

// beside is how many goroutines more run at once because of Beside.
var beside struct {
	sync.Mutex
	n int
}

// Beside has one goroutine more run at once, until end is called, once. Devices that compute in this process keep as many
// goroutines busy as the Go runtime lets run. One that is woken meanwhile, such as for a copy, would run when they pause; with one
// more it runs at once, and the system shares the cores.
func Beside() (end func()) {
	allow(1)
	return func() { allow(-1) }
}

func allow(more int) {
	beside.Lock()
	defer beside.Unlock()
	beside.n += more
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + more)
}

// Threads is how many goroutines run at once without those of Beside: runtime.GOMAXPROCS otherwise.
func Threads() int {
	beside.Lock()
	defer beside.Unlock()
	return runtime.GOMAXPROCS(0) - beside.n
}
