package trace_test

import (
	"testing"
	"time"

	"github.com/berth-ml/berth/executor/trace"
)

// busy is the busy time of two devices, so far.
func busy(a, b time.Duration) []time.Duration { return []time.Duration{a, b} }

func TestClock(t *testing.T) {
	var c trace.Clock
	if c.Throughput() != 0 || c.Bubble() != 0 || c.Percentile(50) != 0 || c.Saves() != (trace.Saves{}) {
		t.Error("a clock that never ran has measured something")
	}
	c.Begin(2, busy(0, 0))
	for i := range 4 {
		time.Sleep(2 * time.Millisecond)
		c.Tick(10, time.Duration(i)*time.Millisecond)
	}
	c.Stop(busy(4*time.Millisecond, 0))
	ran := 40 / c.Throughput() // seconds
	if c.Steps() != 4 {
		t.Errorf("%d steps", c.Steps())
	}
	if ran < 0.008 || c.Longest().Seconds() < 0.002 || c.Newest() < 2 || c.Percentile(0) < 2 || c.Percentile(100) < c.Percentile(50) {
		t.Errorf("%v samples/s, steps of %v to %v ms", c.Throughput(), c.Percentile(0), c.Percentile(100))
	}
	if want := 1 - 0.004/(2*ran); c.Bubble() < want-1e-6 || c.Bubble() > want+1e-6 {
		t.Errorf("bubble %v, want %v", c.Bubble(), want)
	}
	perSecond, d := c.Lap()
	if perSecond != c.Throughput() || d.Seconds() < ran-1e-6 {
		t.Errorf("the lap has %v samples/s, %v", perSecond, d)
	}
	if perSecond, d := c.Lap(); perSecond != 0 || d != 0 {
		t.Errorf("a second lap has %v samples/s, %v", perSecond, d)
	}
	time.Sleep(5 * time.Millisecond) // between Stop and Begin: not measured
	c.Begin(2, busy(0, 0))
	if got := 40 / c.Throughput(); got != ran {
		t.Errorf("the clock ran while it was stopped: %v s, then %v", ran, got)
	}
}

// A percentile of two steps is one of them: the median is the shorter one.
func TestClockPercentiles(t *testing.T) {
	var c trace.Clock
	c.Begin(1, busy(0, 0)[:1])
	for _, d := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
		time.Sleep(d)
		c.Tick(1, 0)
	}
	if least, median, p95 := c.Percentile(0), c.Percentile(50), c.Percentile(95); median != least || p95 < 20 {
		t.Errorf("of 2 steps, the shorter one took %v ms, the median is %v, the 95th percentile %v", least, median, p95)
	}
}

// A percentile is a value of the list: so many of 100 do not exceed it.
func TestPercentile(t *testing.T) {
	var values []int
	for i := range 200 {
		values = append(values, i+1)
	}
	for _, x := range []struct{ n, percent, want int }{
		{200, 0, 1}, {200, 50, 100}, {200, 99, 198}, {200, 100, 200}, {100, 99, 99}, {101, 99, 100}, {3, 50, 2}, {3, 99, 3}, {1, 99, 1},
	} {
		if got := trace.Percentile(values[:x.n], x.percent); got != x.want {
			t.Errorf("percentile %d of 1 to %d: %d, want %d", x.percent, x.n, got, x.want)
		}
	}
}

// Steps during a save are counted apart.
func TestClockOfSaves(t *testing.T) {
	var c trace.Clock
	c.Begin(1, busy(0, 0)[:1])
	step := func(d time.Duration) {
		time.Sleep(d)
		c.Tick(1, 0)
	}
	for range 5 {
		step(time.Millisecond)
	}
	c.Saving(true)
	for range 3 {
		step(20 * time.Millisecond)
	}
	c.Saving(false)
	step(time.Millisecond)
	s := c.Saves()
	if s.Beside != 3 || s.First != 1 || s.StallMS < 5 || s.Slowdown <= 0 {
		t.Errorf("%+v", s)
	}
}
