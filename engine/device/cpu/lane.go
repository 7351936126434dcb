package cpu

import (
	"sync/atomic"
	"time"
)

// Two threads that compute can end up on one core while another core is idle: a copy wakes on a core of theirs, the system makes
// room for it, and does not look again for some milliseconds after the copy has ended. A step in little memory, which copies all
// the time, takes a tenth longer for it. So a thread that finds another one on its core, and still does so later, goes elsewhere.

// shares is for how long a thread shares a core before it leaves: the move takes some microseconds, and many are soon alone again.
const shares = 300 * time.Microsecond

// nowhere is the core of a lane that does not compute.
const nowhere = -1

// newest has, for each core, the lane that was the newest to compute there. Lanes are of all devices: these share the cores.
var newest [1024]atomic.Pointer[lane]

// lane is a thread's place in a pool.
type lane struct {
	core  atomic.Int32 // on which it computes, or nowhere
	since time.Time    // when it first met the lane that it shares its core with; the thread's own
	_     [32]byte     // a cache line
}

// enter begins a chunk. It moves the thread to a core without another lane, if it has shared its own for too long.
func (l *lane) enter() {
	core := coreNow()
	if uint(core) >= uint(len(newest)) {
		return
	}
	l.core.Store(core)
	other := newest[core].Load()
	if other == l {
		return
	}
	if other == nil || other.core.Load() != core {
		newest[core].Store(l)
		l.since = time.Time{}
		return
	}
	switch now := time.Now(); {
	case l.since.IsZero():
		l.since = now
	case now.Sub(l.since) > shares:
		l.since = time.Time{}
		moveFrom(core, func(core int32) bool {
			other := newest[core].Load()
			return other == nil || other.core.Load() != core
		})
	}
}

// leave ends a chunk.
func (l *lane) leave() { l.core.Store(nowhere) }
