package trace

import (
	"slices"
	"time"
)

// Clock measures training: the time of each step and how busy the devices
// were, without evaluation and checkpoints. It allocates nothing per step. One
// goroutine uses it.
type Clock struct {
	steps   [1 << 15]float32 // milliseconds of the newest steps, a ring
	n       int
	samples int
	total   time.Duration
	from    time.Time     // when the newest step began
	last    time.Time     // when it ended, or the clock was started
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

// Begin starts the clock, or goes on after Stop. Devices is the number of
// devices that have a stage, busy each device's busy time so far.
func (c *Clock) Begin(devices int, busy []time.Duration) {
	c.devices = devices
	c.last = time.Now()
	c.mark = busy
	c.worked = 0
	for _, b := range busy {
		c.worked += b
	}
}

// Tick ends a step; worked is the busy time of all devices so far.
func (c *Clock) Tick(samples int, worked time.Duration) {
	now := time.Now()
	d := now.Sub(c.last)
	c.from, c.last = c.last, now
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

// Stop stops the clock until Begin; busy is each device's busy time so far.
func (c *Clock) Stop(busy []time.Duration) {
	for i, b := range busy {
		c.busy += b - c.mark[i]
	}
	c.mark = busy
}

// Saving says whether a save is under way from now on.
func (c *Clock) Saving(on bool) { c.save.on, c.save.fresh = on, on }

// Steps is the number of steps measured.
func (c *Clock) Steps() int { return c.n }

// Newest is the last step's time in milliseconds.
func (c *Clock) Newest() float32 { return c.steps[(c.n-1)%len(c.steps)] }

// Span is when the last step began and ended.
func (c *Clock) Span() (start, end time.Time) { return c.from, c.last }

// Longest is the longest step's time.
func (c *Clock) Longest() time.Duration { return c.longest }

// Lap is the throughput since the last lap, in samples per second, and the time
// that the steps took.
func (c *Clock) Lap() (perSecond float64, d time.Duration) {
	d = c.epoch.total
	if d > 0 {
		perSecond = float64(c.epoch.samples) / d.Seconds()
	}
	c.epoch.samples, c.epoch.total = 0, 0
	return perSecond, d
}

// Percentile is the least step time, in milliseconds, that so many of 100 steps do not
// exceed; 0 before the first step.
func (c *Clock) Percentile(percent int) float64 {
	return percentile(c.steps[:min(c.n, len(c.steps))], percent)
}

// Median is the median time of the newest steps, at most so many of them, in milliseconds.
func (c *Clock) Median(steps int) float64 {
	var list []float32
	for i := range min(steps, c.n, len(c.steps)) {
		list = append(list, c.steps[(c.n-1-i)%len(c.steps)])
	}
	return percentile(list, 50)
}

// Throughput is samples per second over all steps.
func (c *Clock) Throughput() float64 {
	if c.total <= 0 {
		return 0
	}
	return float64(c.samples) / c.total.Seconds()
}

// Bubble is the share of time that the devices were idle.
func (c *Clock) Bubble() float64 {
	if c.total <= 0 {
		return 0
	}
	return max(0, 1-c.busy.Seconds()/(c.total.Seconds()*float64(c.devices)))
}

// Worked is how long all devices have worked in steps, and how long they have idled.
func (c *Clock) Worked() (worked, idled time.Duration) {
	return c.busy, max(0, c.total*time.Duration(c.devices)-c.busy)
}

// Saves counts the steps that ran while a checkpoint was saved.
type Saves struct {
	Beside   int     // steps while a save was under way
	First    int     // of these, the first of each save
	StallMS  float64 // how long a device waited for copies in a first step, on average, in milliseconds
	Slowdown float64 // how much longer a step during a save took than the median of the others, as a share, without StallMS
}

// Saves measures the saves so far.
func (c *Clock) Saves() Saves {
	s := &c.save
	return Saves{s.nDuring, s.nFirst, s.stall(c.devices), s.slowdown(c.devices)}
}

// saveClock measures the steps during saves, and the others.
type saveClock struct {
	on, fresh bool          // a save is under way; it began at the last boundary
	during    time.Duration // of the steps during a save
	idle      time.Duration // of all devices, in the steps that came first after a boundary
	nDuring   int
	nFirst    int
	alone     [1 << 10]float32 // milliseconds of the newest other steps, a ring
	rest      [1 << 10]float32 // by step of alone: milliseconds that all devices were idle
	nAlone    int
}

// tick ends a step in which devices were idle for so long, all together.
func (s *saveClock) tick(d, idle time.Duration) {
	if s.fresh {
		s.fresh = false
		s.idle += idle
		s.nFirst++
	}
	if s.on {
		s.during += d
		s.nDuring++
		return
	}
	i := s.nAlone % len(s.alone)
	s.alone[i], s.rest[i] = float32(d.Seconds()*1e3), float32(idle.Seconds()*1e3)
	s.nAlone++
}

// stall is how much longer a device was idle in first steps than in the median
// of the steps without a save, in milliseconds.
func (s *saveClock) stall(devices int) float64 {
	if s.nFirst == 0 {
		return 0
	}
	idle := s.idle.Seconds() * 1e3 / float64(s.nFirst)
	return max(0, idle-percentile(s.rest[:min(s.nAlone, len(s.rest))], 50)) / float64(devices)
}

// slowdown is Saves.Slowdown.
func (s *saveClock) slowdown(devices int) float64 {
	usual := percentile(s.alone[:min(s.nAlone, len(s.alone))], 50)
	if s.nDuring == 0 || usual == 0 {
		return 0
	}
	took := s.during.Seconds()*1e3 - float64(s.nFirst)*s.stall(devices)
	return max(0, took/float64(s.nDuring)/usual-1)
}

// percentile is Percentile of times in any order; 0 if there are none.
func percentile(times []float32, percent int) float64 {
	if len(times) == 0 {
		return 0
	}
	return float64(Percentile(slices.Sorted(slices.Values(times)), percent))
}

// Percentile is the least of sorted values, at least one, that so many of 100 do not exceed.
func Percentile[T any](sorted []T, percent int) T {
	rank := (percent*len(sorted) + 99) / 100
	return sorted[max(0, rank-1)]
}
