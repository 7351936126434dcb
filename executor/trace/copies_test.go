package trace_test

import (
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/trace"
)

func TestCopies(t *testing.T) {
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	var c trace.Copies
	add := func(d device.ID, stream, what string, start, end int) {
		c.Add(device.Span{Device: d, Stream: stream, What: what, Start: at(start), End: at(end)})
	}
	check := func(what string, hidden, exposed int) {
		t.Helper()
		want := trace.CopyTime{Hidden: time.Duration(hidden) * time.Millisecond, Exposed: time.Duration(exposed) * time.Millisecond}
		if got := c.Time(); got != want {
			t.Errorf("%s: %v, expected %v", what, got, want)
		}
	}
	add("cpu:0", "in", "copy-in", 0, 100)
	check("before Begin", 0, 0)
	c.Begin()
	add("cpu:0", "compute", "s0.F", 100, 110)
	add("cpu:0", "in", "copy-in", 90, 120) // 10 during s0.F, 5 during s0.B, which ends later
	add("cpu:1", "out", "copy-out", 100, 107)
	add("cpu:0", "compute", "s0.B", 115, 130)
	check("two devices", 15, 22)
	add("cpu:0", "in", "wait", 130, 140)
	add("cpu:1", "store", trace.StreamIn, 107, 110) // cpu:1 launches nothing
	check("a store", 15, 25)
	add("cpu:0", "out", "peer", 116, 130)
	check("all of it hidden", 29, 25)
	c.Add(device.Span{Device: "cpu:0", Stream: "compute", What: "s0.F", Start: at(130), End: at(140), Waited: 4 * time.Millisecond})
	add("cpu:0", "in", "copy-in", 131, 134) // the launch waits for both
	add("cpu:0", "in", "copy-in", 134, 138)
	check("a launch that waits", 32, 29)
	c.Stop()
	add("cpu:0", "in", "copy-in", 140, 150)
	check("after Stop", 32, 29)
	c.Restart()
	c.Begin()
	for i := range 5000 {
		add("cpu:0", "in", "copy-in", 200+10*i, 204+10*i)
		add("cpu:0", "compute", "s0.FBU", 202+10*i, 209+10*i)
	}
	check("many steps", 2*5000, 2*5000)
	if n := testing.AllocsPerRun(100, func() {
		add("cpu:0", "in", "copy-in", 60000, 60001)
		add("cpu:0", "compute", "s0.FBU", 60002, 60003)
	}); n != 0 {
		t.Errorf("%v allocations for each step", n)
	}
}
