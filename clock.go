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
	worked  time.Duration // of all devices, until the last step's end
	devices int           // that have a stage
	epoch   struct {
		samples int
		total   time.Duration
	}
}

// begin starts the clock; busy is each device's busy time so far.
func (c *stepClock) begin(busy []time.Duration) {
	c.last = time.Now()
	c.mark = busy
	c.worked = 0
	for _, b := range busy {
		c.worked += b
	}
}

// tick ends a step; all devices have worked for so long until now.
func (c *stepClock) tick(samples int, worked time.Duration) {
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
	c.save.tick(d, d*time.Duration(c.devices)-(worked-c.worked))
	c.worked = worked
}

// saveClock measures the steps that checkpoints are saved beside, and the
// others.
type saveClock struct {
	on, fresh bool          // a save is under way; it was begun at the last boundary
	beside    time.Duration // of the steps beside a save
	idle      time.Duration // of all devices, in the steps that came first after a boundary
	nBeside   int
	nFirst    int
	alone     [1 << 10]float32 // milliseconds of the newest other steps, a ring
	rest      [1 << 10]float32 // and how long all devices were idle in each
	nAlone    int
}

// saving says whether a save is under way.
func (c *stepClock) saving(on bool) { c.save.on, c.save.fresh = on, on }

// tick ends a step in which devices were idle for so long, all together.
func (s *saveClock) tick(d, idle time.Duration) {
	if s.fresh {
		s.fresh = false
		s.idle += idle
		s.nFirst++
	}
	if s.on {
		s.beside += d
		s.nBeside++
		return
	}
	i := s.nAlone % len(s.alone)
	s.alone[i], s.rest[i] = float32(d.Seconds()*1e3), float32(idle.Seconds()*1e3)
	s.nAlone++
}

// stall is for how many milliseconds a device waited for copies of a save, on
// average: how much longer it was idle in first steps than in the median of
// those alone.
func (s *saveClock) stall(devices int) float64 {
	if s.nFirst == 0 {
		return 0
	}
	idle := s.idle.Seconds() * 1e3 / float64(s.nFirst)
	return max(0, idle-percentile(s.rest[:min(s.nAlone, len(s.rest))], 0.5)) / float64(devices)
}

// slowdown is how much longer a step beside a save takes than the median of
// the others, as a share; what it waits for copies is not in it.
func (s *saveClock) slowdown(devices int) float64 {
	usual := percentile(s.alone[:min(s.nAlone, len(s.alone))], 0.5)
	if s.nBeside == 0 || usual == 0 {
		return 0
	}
	took := s.beside.Seconds()*1e3 - float64(s.nFirst)*s.stall(devices)
	return max(0, took/float64(s.nBeside)/usual-1)
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
	return percentile(c.steps[:min(c.n, len(c.steps))], p)
}

// percentile sorts a copy; it is 0 of nothing.
func percentile(of []float32, p float64) float64 {
	n := len(of)
	if n == 0 {
		return 0
	}
	s := slices.Clone(of)
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
