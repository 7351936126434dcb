package balance

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// Clock keeps how long the newest launches of devices worked. The streams of devices tell it of each operation as it
// ends. It is safe for concurrent use, and allocates nothing after Begin. The zero value keeps nothing.
type Clock struct {
	on     atomic.Bool
	mu     sync.Mutex
	queues map[device.Queue]*launches
}

// launches are the newest ones of a queue, which end in the order of their numbers.
type launches struct {
	ring []launch // the n-th at n modulo its length
	n    int      // that have ended
}

// launch is a launch that ended.
type launch struct {
	seq  uint64
	took time.Duration
}

// Begin keeps so many launches of each of these queues from now on, and forgets all others.
func (c *Clock) Begin(queues []device.Queue, launchesOfEach int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queues = map[device.Queue]*launches{}
	for _, q := range queues {
		c.queues[q] = &launches{ring: make([]launch, launchesOfEach)}
	}
	c.on.Store(true)
}

// Add is called by the streams of devices, for each operation.
func (c *Clock) Add(s device.Span) {
	if !c.on.Load() || s.Event.Queue == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.queues[s.Event.Queue]; l != nil {
		l.ring[l.n%len(l.ring)] = launch{s.Event.Seq, s.End.Sub(s.Start) - s.Waited}
		l.n++
	}
}

// Took is how long a launch worked, without its waits. It reports false for one that has not ended, or not lately.
func (c *Clock) Took(e device.Event) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.queues[e.Queue]
	if l == nil {
		return 0, false
	}
	kept := min(l.n, len(l.ring))
	at := func(i int) *launch { return &l.ring[(l.n-kept+i)%len(l.ring)] }
	i := sort.Search(kept, func(i int) bool { return at(i).seq >= e.Seq })
	if i == kept || at(i).seq != e.Seq {
		return 0, false
	}
	return at(i).took, true
}
