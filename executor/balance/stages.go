package balance

import (
	"math"
	"slices"
	"time"
)

const (
	// Apart is how many times as long as planned, beside another one, a device must take for a plan to be made anew.
	Apart = 1.2
	// ApartSteps is the steps for which this must last, before the first change.
	ApartSteps = 50

	mostApartSteps = 6400              // between two changes
	shortest       = 1e-9              // seconds of passes: a clock may be too coarse for them
	least          = evidence / window // the share of a step's time that a change must save

	leastCost = 100 * time.Millisecond // of a change: saving less is worth nobody's attention
)

// Stages tells when the devices of a pipeline work for other times than the plan counted with. Only Begin allocates. One
// goroutine uses it. Begin comes first.
type Stages struct {
	sampler
	planned []float64 // by device: seconds of its passes of a full step that nothing is to be done about
	seconds []float64 // by device: as measured
	apart   int       // steps in a row for which these differ from planned
	wait    int       // for which they must
}

// Begin measures anew, by another plan: by device, the seconds of its passes of a full step. After each change, the next one
// must wait for twice as many steps.
func (s *Stages) Begin(planned []float64) {
	s.sampler = newSampler(len(planned))
	s.planned, s.seconds = slices.Clone(planned), make([]float64, len(planned))
	s.apart, s.wait = 0, max(ApartSteps, min(2*s.wait, mostApartSteps))
}

// Took tells how long the devices worked on their passes of a full step, in seconds.
func (s *Stages) Took(passes []float64) {
	steps := s.add(passes)
	if steps == 0 || s.samples < fewest {
		return
	}
	for d := range s.planned {
		s.seconds[d] = max(s.usual(d), shortest)
	}
	switch usual, now := s.spread(s.seconds), s.spread(s.newest()); {
	case usual <= Apart:
		s.apart = 0
	case now > Apart && now*now > usual: // else they differ no more, or far less than before: a device has recovered
		s.apart += steps
	}
}

// spread is how many times as long as planned the device that is the furthest behind takes, beside the one that is the furthest ahead.
func (s *Stages) spread(seconds []float64) float64 {
	low, high := math.Inf(1), 0.0
	for d, planned := range s.planned {
		low, high = min(low, seconds[d]/planned), max(high, seconds[d]/planned)
	}
	return high / low
}

// Uneven gives, by device, the seconds of its passes, where they have differed from the plan's for long enough. The next
// call of Took overwrites them.
func (s *Stages) Uneven() (seconds []float64, ok bool) {
	return s.seconds, s.apart >= s.wait
}

// Keep says that no other plan is worth a change, and how long it took to find out. There may be one once the times differ
// from those of now; looking for plans is to take no more than a hundredth of the steps' time.
func (s *Stages) Keep(took time.Duration) {
	copy(s.planned, s.seconds)
	steps := 100 * took.Seconds() / slices.Max(s.seconds)
	s.apart, s.wait = 0, max(s.wait, int(min(steps, mostApartSteps)))
}

// Pays reports whether a change from steps of so many seconds to others is worth its cost, in so many steps that are left: it
// saves a tenth, and within a thousand steps a tenth of a second, and more than the change takes.
func Pays(before, after float64, steps int, cost time.Duration) bool {
	saved := before - after
	return saved > 0 && saved >= least*before && saved*float64(min(steps, payoff)) > max(cost, leastCost).Seconds()
}

// Cuts is what devices took with blocks that they had before, by a text that names the blocks: by device, the seconds of its
// passes when they were given others. A forecast may be wrong about blocks; what was measured is not.
type Cuts map[string][]float64

// Leave notes what devices take with blocks that they will not have any more.
func (c Cuts) Leave(cut string, seconds []float64) { c[cut] = slices.Clone(seconds) }

// Refuse notes that steps took no less with blocks, whatever their devices took.
func (c Cuts) Refuse(cut string, devices int) {
	c[cut] = slices.Repeat([]float64{math.Inf(1)}, devices)
}

// Vain reports whether a change from one cut, with which devices take so many seconds now, to another one would bring nothing,
// as is known from before: they take what they took with the first one then, and the slowest took no less with the other, or that
// was refused.
func (c Cuts) Vain(from string, seconds []float64, to string) bool {
	was, other := c[from], c[to]
	if was == nil || other == nil {
		return false
	}
	for d, s := range seconds {
		if s > Apart*was[d] || was[d] > Apart*s {
			return false
		}
	}
	return slices.Max(other) > (1-least)*slices.Max(seconds)
}

// little is the part of the most work of a device that says little about another device's speed.
const little = 0.25

// Slowness is, by device, how many times as long as planned its passes take. Of a device with little work, that is mostly the
// time from one launch to the next: it is not taken for faster than the device with the most work, until it has more.
func Slowness(seconds, planned []float64) (slow []float64) {
	most := 0
	for d, p := range planned {
		if slow = append(slow, seconds[d]/p); p > planned[most] {
			most = d
		}
	}
	for d, p := range planned {
		if p < little*planned[most] {
			slow[d] = max(slow[d], slow[most])
		}
	}
	return slow
}
