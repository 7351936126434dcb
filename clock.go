package berth

import (
	"slices"
	"time"
)

// stepClock measures training: the time of each step and how busy the devices
// were, evaluation and checkpoints left out. It allocates nothing per step.
type stepClock struct {
	steps   [1 << 15]float32 // milliseconds of the newest steps, a ring
	n       int
	samples int
	total   time.Duration
	last    time.Time
	longest time.Duration // of a step
	busy    time.Duration // of all devices
	save    saveClock
	mark    []time.Duration
	epoch   struct {
		samples int
		total   time.Duration
	}
}

// begin starts the clock; busy is each device's busy time so far.
func (c *stepClock) begin(busy []time.Duration) {
	c.last = time.Now()
	c.mark = busy
}

// tick ends a step.
func (c *stepClock) tick(samples int) {
	now := time.Now()
	d := now.Sub(c.last)
	c.last = now
	c.steps[c.n%len(c.steps)] = float32(d.Seconds() * 1e3)
	c.n++
	c.samples += samples
	c.total += d
	c.longest = max(c.longest, d)
	c.epoch.samples += samples
	c.epoch.total += d
	c.save.tick(d)
}

// saveClock measures the steps that checkpoints are saved beside.
type saveClock struct {
	on, fresh       bool          // a save is under way; it was begun at the last boundary
	first           time.Duration // of the steps that came first after a boundary
	during          time.Duration // of the others
	nFirst, nDuring int
}

// saving says whether a save is under way.
func (c *stepClock) saving(on bool) { c.save.on, c.save.fresh = on, on }

func (s *saveClock) tick(d time.Duration) {
	switch {
	case s.fresh:
		s.first += d
		s.nFirst++
	case s.on:
		s.during += d
		s.nDuring++
	}
	s.fresh = false
}

// stop stops the clock.
func (c *stepClock) stop(busy []time.Duration) {
	for i, b := range busy {
		c.busy += b - c.mark[i]
	}
	c.mark = busy
}

// newest is the last step's time in milliseconds.
func (c *stepClock) newest() float32 { return c.steps[(c.n-1)%len(c.steps)] }

// lap is the throughput since the last lap, in samples per second.
func (c *stepClock) lap() (perSecond float64, d time.Duration) {
	d = c.epoch.total
	if d > 0 {
		perSecond = float64(c.epoch.samples) / d.Seconds()
	}
	c.epoch.samples, c.epoch.total = 0, 0
	return perSecond, d
}

// percentile is the p-th percentile of step times, in milliseconds.
func (c *stepClock) percentile(p float64) float64 {
	n := min(c.n, len(c.steps))
	if n == 0 {
		return 0
	}
	s := slices.Clone(c.steps[:n])
	slices.Sort(s)
	return float64(s[min(n-1, int(p*float64(n)))])
}

// throughput is samples per second over the whole run.
func (c *stepClock) throughput() float64 {
	if c.total <= 0 {
		return 0
	}
	return float64(c.samples) / c.total.Seconds()
}

// bubble is the share of time that the devices were idle between them.
func (c *stepClock) bubble(devices int) float64 {
	if c.total <= 0 {
		return 0
	}
	return max(0, 1-c.busy.Seconds()/(c.total.Seconds()*float64(devices)))
}
