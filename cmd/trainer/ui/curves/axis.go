package curves

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// Axis gives steps their place across: it never falls.
type Axis struct {
	Unit    string // step, epoch or time
	of      func(step float64) float64
	version string // of two that are equal, so are all places
}

// Axes are the units that an axis may have. time is in seconds since the run began; where it rested, the axis goes on.
var Axes = []string{"step", "epoch", "time"}

// Axis is the axis of a unit as it is known now. ok is false where it is not known yet, or is none of Axes: it is by step then.
// steps is the length of an epoch as others know it; 0: not.
func (h *History) Axis(unit string, steps int) (at Axis, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	per := h.epochs.Steps()
	if per == 0 {
		per = float64(steps)
	}
	switch {
	case unit == "epoch" && per > 0:
		return Axis{unit, func(step float64) float64 { return step / per }, fmt.Sprint("epoch", per)}, true
	case unit == "time" && len(h.clock.at) > 1:
		c := clock{at: slices.Clone(h.clock.at)}
		return Axis{unit, c.seconds, fmt.Sprint("time", h.clock.changes)}, true
	}
	return Axis{"step", func(step float64) float64 { return step }, "step"}, unit == "step"
}

// At is the place of a step.
func (a Axis) At(step float64) float64 { return a.of(step) }

// moment is when a step was taken, in seconds since the run began.
type moment struct{ step, seconds float64 }

// clock knows when steps were taken. Only boundaries have a time: steps between two are taken to be as long as each other.
type clock struct {
	began   time.Time
	at      []moment // both grow; the first is step 0
	changes int      // of at
}

// mostMoments bounds the memory of a clock.
const mostMoments = 1 << 17

// take sees a boundary at a time, the seconds of whose steps are known.
func (c *clock) take(step float64, t time.Time, seconds float64) {
	if !(seconds > 0 && seconds < 1e9) {
		seconds = 0
	}
	if len(c.at) == 0 {
		c.began = t.Add(-time.Duration(seconds * float64(time.Second)))
		c.at = append(c.at, moment{})
	}
	for n := len(c.at); n > 1 && c.at[n-1].step >= step; n = len(c.at) { // it was resumed
		c.at = c.at[:n-1]
	}
	last, s := c.at[len(c.at)-1], t.Sub(c.began).Seconds()
	if step > last.step && s >= last.seconds && len(c.at) < mostMoments {
		c.at = append(c.at, moment{step, s})
	}
	c.changes++
}

// seconds is when a step was taken. There are two moments or more.
func (c *clock) seconds(step float64) float64 {
	i := sort.Search(len(c.at)-1, func(i int) bool { return c.at[i].step >= step })
	i = max(1, i)
	a, b := c.at[i-1], c.at[i]
	return a.seconds + (b.seconds-a.seconds)*(step-a.step)/(b.step-a.step)
}
