package simulate

import (
	"slices"
	"sort"
)

// link is one end of what connects a rank to others. Messages share it: each takes what others have left free, whenever it
// becomes known. The simulation owns it.
type link struct{ busy []span } // in their order, without touching

// span is from a time to a later one.
type span struct{ start, end float64 }

// least is the shortest time that counts: that of a kilobyte or less.
const least = 1e-7

// take keeps the link busy for so long, from the given time on, where it is free: from start to end in all.
func (l *link) take(from, seconds float64) (start, end float64) {
	i := sort.Search(len(l.busy), func(i int) bool { return l.busy[i].end >= from })
	first := i
	if start = from; i < len(l.busy) && l.busy[i].start <= from {
		start = l.busy[i].end
		i++
	}
	end = start + seconds
	for ; i < len(l.busy) && l.busy[i].start <= end; i++ {
		end += l.busy[i].end - l.busy[i].start
	}
	if seconds < least {
		return start, end
	}
	all := span{start, end}
	if first < i {
		all.start = min(start, l.busy[first].start)
	}
	l.busy = slices.Replace(l.busy, first, i, all)
	return start, end
}

// forget forgets what ended before a time from which on all messages are sent.
func (l *link) forget(before float64) {
	i := sort.Search(len(l.busy), func(i int) bool { return l.busy[i].end >= before })
	l.busy = slices.Delete(l.busy, 0, i)
}
