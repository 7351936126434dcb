package crew

import (
	"testing"
	"time"
)

// TestSample: the looks count the rank that is waited for while this one must get on, and nothing else.
func TestSample(t *testing.T) {
	well(t, play(t, 2, member, func(c *Crew) error {
		other := 1 - c.Rank()
		for _, x := range []struct {
			does   Doing
			counts bool
		}{
			{Doing{Must: true, Rank: other}, true},
			{Doing{Must: true, Rank: c.Rank()}, false},
			{Doing{Rank: other}, false},
		} {
			c.SetDoing(func() Doing { return x.does })
			s := c.Sample()
			began := time.Now()
			time.Sleep(5 * sampled)
			waited := s.End()
			most := time.Since(began) + sampled
			if got := waited[other]; waited[c.Rank()] != 0 || (got > 0) != x.counts || got > most {
				t.Errorf("%+v: rank %d waited %v of %v", x.does, c.Rank(), waited, most)
			}
			if again := s.End(); again[other] != waited[other] {
				t.Errorf("End has %v, and then %v", waited, again)
			}
		}
		c.SetDoing(nil)
		return nil
	}))
}
