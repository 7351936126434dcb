package work

import "sync/atomic"

// Lowest remembers the lowest position at which something was wrong, whichever
// chunk reports first.
type Lowest struct{ pos int64 }

// Reset forgets; it must precede every run.
func (f *Lowest) Reset() { atomic.StoreInt64(&f.pos, -1) }

// Report records a position unless a lower one is known.
func (f *Lowest) Report(pos int) {
	for {
		old := atomic.LoadInt64(&f.pos)
		if old >= 0 && old <= int64(pos) {
			return
		}
		if atomic.CompareAndSwapInt64(&f.pos, old, int64(pos)) {
			return
		}
	}
}

// Position is the lowest one reported, -1 if there was none.
func (f *Lowest) Position() int { return int(atomic.LoadInt64(&f.pos)) }
