package mpi

import (
	"sync/atomic"
	"time"
)

// bell wakes the thread that calls MPI. It sleeps by a call of the system: a channel with a timer took a third more
// CPU time, since other threads of the Go runtime look after it.
type bell struct {
	rung     uint32
	sleeping atomic.Bool
}

// ring ends a sleep, or the next one.
func (b *bell) ring() {
	atomic.StoreUint32(&b.rung, 1)
	if b.sleeping.Load() {
		futexWake(&b.rung)
	}
}

// hush forgets that the bell has rung.
func (b *bell) hush() { atomic.StoreUint32(&b.rung, 0) }

// wait sleeps until the bell rings, for that long at most; 0: without end. It may end sooner.
func (b *bell) wait(most time.Duration) {
	b.sleeping.Store(true)
	futexWait(&b.rung, most)
	b.sleeping.Store(false)
}
