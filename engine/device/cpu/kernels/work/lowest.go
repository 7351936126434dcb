package work

import "sync/atomic"

// lowest remembers the lowest position at which something was wrong, whichever
// chunk reports first.
type Lowest struct{ pos int64 }

// reset forgets; it must precede every run.
func (f *Lowest) Reset() { atomic.StoreInt64(&f.pos, -1) }

// report records a position unless a lower one is known.
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

// position is the lowest one reported, -1 if there was none.
func (f *Lowest) Position() int { return int(atomic.LoadInt64(&f.pos)) }
