package balance

import (
	"slices"
	"time"
)

const (
	leastPause, mostPause = window, 1 << 16

	payoff   = 1000 // steps within which a change must make up for the time that it takes
	mostRest = 64   // samples between two changes
)

// evidence is what the share of time saved, times the samples taken, must reach.
const evidence = 0.9

// Balancer proposes the shares of a program's replicas. Its methods allocate only where shares change. One
// goroutine uses it. Make it with [New].
type Balancer struct {
	sampler            // of the replicas, with these shares
	shares   []int     // microbatches of each replica in a full step
	most     []int     // by replica: those for which it has memory, as far as is known
	news     bool      // a sample was taken since Propose last looked
	pause    int       // samples that are passed over after proposals in vain, the next time
	rest     int       // samples from the newest change to the next one, at least
	longer   int       // rest after the next change
	seconds  []float64 // by replica: the time for a microbatch
	proposed []int
	cost     time.Duration // of the newest change
}

// New makes a balancer of replicas that begin with so many microbatches each.
func New(shares []int) *Balancer {
	n, all := len(shares), 0
	for _, s := range shares {
		all += s
	}
	return &Balancer{
		sampler: newSampler(n), shares: slices.Clone(shares), most: slices.Repeat([]int{all}, n),
		seconds: make([]float64, n), proposed: make([]int, n), pause: leastPause,
	}
}

// Shares are the microbatches of each replica now. The caller must not change the list.
func (b *Balancer) Shares() []int { return b.shares }

// Seconds are the replicas' times for a microbatch by which the newest proposal was made. The next call of
// Propose overwrites them.
func (b *Balancer) Seconds() []float64 { return b.seconds }

// Took tells how long the replicas worked on their passes of a full step with the present shares, in seconds.
func (b *Balancer) Took(passes []float64) {
	if b.add(passes) > 0 {
		b.news = true
	}
}

// Propose gives shares that end a step's passes sooner, if there are any. They are valid until the next
// call of a method. The caller then calls Take, or Refuse. Between two samples it looks at nothing.
func (b *Balancer) Propose() (shares []int, ok bool) {
	if !b.news {
		return nil, false
	}
	b.news = false
	return b.better()
}

// better is the shares that Propose gives, by the samples so far.
func (b *Balancer) better() (shares []int, ok bool) {
	n := min(b.samples, window)
	if n < fewest || b.samples < b.rest {
		return nil, false
	}
	for r, s := range b.shares {
		b.seconds[r] = b.usual(r) / float64(s)
	}
	b.assign()
	now, then := b.passes(b.shares), b.passes(b.proposed)
	if saved := now - then; saved <= 0 || saved < evidence/float64(n)*now || saved*payoff < b.cost.Seconds() {
		return nil, false
	}
	return b.proposed, true
}

// passes is the time of a step's passes with these shares.
func (b *Balancer) passes(shares []int) (longest float64) {
	for r, s := range shares {
		longest = max(longest, b.ends(r, s))
	}
	return longest
}

// ends is when a replica would have ended so many microbatches.
func (b *Balancer) ends(replica, microbatches int) float64 {
	return float64(microbatches) * b.seconds[replica]
}

// assign proposes the best shares.
func (b *Balancer) assign() {
	left := 0
	for r, s := range b.shares {
		left += s - 1
		b.proposed[r] = 1
	}
	for ; left > 0; left-- {
		next := -1
		for r, s := range b.proposed {
			if s < b.most[r] && (next < 0 || b.ends(r, s+1) < b.ends(next, b.proposed[next]+1)) {
				next = r
			}
		}
		b.proposed[next]++ // the present shares fit, so one has room
	}
}

// Take makes the proposed shares the present ones, which took so long.
func (b *Balancer) Take(cost time.Duration) {
	copy(b.shares, b.proposed)
	b.cost, b.pause = cost, leastPause
	b.rest, b.longer = b.longer, min(2*b.longer+window, mostRest)
	b.anew()
}

// Refuse says that a replica has no memory for the proposed shares, and proposes others. Without any, the
// replicas are measured anew after a pause, which is longer each time.
func (b *Balancer) Refuse(replica int) (shares []int, ok bool) {
	if has := b.shares[replica]; b.proposed[replica] > has {
		b.most[replica] = b.proposed[replica] - max(1, (b.proposed[replica]-has)/8) // exact for few, and soon there for many
		if shares, ok = b.better(); ok {
			return shares, true
		}
	}
	b.samples, b.pause = -b.pause, min(2*b.pause, mostPause)
	return nil, false
}

// Full reports whether a replica is known to have no memory for more than so many microbatches.
func (b *Balancer) Full(replica, microbatches int) bool { return microbatches >= b.most[replica] }
