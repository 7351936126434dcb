package crew

import (
	"sync"
	"time"
)

// sampled is the time between two looks at what a rank waits for.
const sampled = 20 * time.Millisecond

// Samples count the looks at which a rank that must get on waited for each other one. A nil Samples counts none.
type Samples struct {
	stop  func()
	ended sync.WaitGroup
	of    []int // by rank; the goroutine's until it has ended
}

// Sample begins to look 50 times a second at what this rank waits for, by [Crew.Doing], until [Samples.End].
func (c *Crew) Sample() *Samples {
	stop := make(chan struct{})
	s := &Samples{stop: sync.OnceFunc(func() { close(stop) }), of: make([]int, c.Size())}
	s.ended.Go(func() {
		tick := time.NewTicker(sampled)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if d := c.Doing(); d.Must && d.Rank >= 0 && d.Rank != c.Rank() {
					s.of[d.Rank]++
				}
			case <-stop:
				return
			}
		}
	})
	return s
}

// End ends the looks. It gives, by rank, for how long this one was seen to wait for it. A second call has the same result.
func (s *Samples) End() []time.Duration {
	if s == nil {
		return nil
	}
	s.stop()
	s.ended.Wait()
	list := make([]time.Duration, len(s.of))
	for rank, n := range s.of {
		list[rank] = time.Duration(n) * sampled
	}
	return list
}
