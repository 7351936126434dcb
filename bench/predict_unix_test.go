//go:build unix

package bench

import (
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// TestPredictedTime compares the predicted time of steps with the time of the
// processor: a limit on memory lengthens both alike. The times themselves are rough. Other
// programs lengthen the processor's time, too, where they share its caches: the least of
// several rounds counts, with and without the limit in turns.
func TestPredictedTime(t *testing.T) {
	if !testall.Wanted() {
		t.Skip("takes seconds: TEST_ALL=1 runs it")
	}
	for _, x := range []struct {
		name    string
		percent float64
		steps   int
	}{{"mlp", 65, 30}, {"cnn", 55, 5}, {"gpt-nano", 50, 5}, {"gpt-nano", 25, 5}} {
		free, limited := openTimed(t, x.name, 0), openTimed(t, x.name, x.percent)
		for range 6 {
			free.run(t, x.steps)
			limited.run(t, x.steps)
		}
		free.close(t)
		limited.close(t)
		predicted, measured := limited.predicted/free.predicted, limited.measured/free.measured
		t.Logf("%s: predicted %.1f ms, measured %.1f ms; in %v%% of the memory %.2f and %.2f times that", x.name, 1e3*free.predicted, 1e3*free.measured, x.percent, predicted, measured)
		if predicted < 1 || predicted > 1.5*measured || measured > 1.5*predicted {
			t.Errorf("%s: in %v%% of the memory a step takes %.2f times as long, the plan says %.2f", x.name, x.percent, measured, predicted)
		}
		if free.predicted > 5*free.measured || free.measured > 5*free.predicted {
			t.Errorf("%s: a step takes %v s, the plan says %v", x.name, free.measured, free.predicted)
		}
	}
}

// timed is a session and the times of its steps, in seconds.
type timed struct {
	s                   *training
	predicted, measured float64 // measured is the least mean of a round
}

// openTimed opens a session, and takes its first steps, which are slow.
func openTimed(t *testing.T, name string, percent float64) *timed {
	t.Helper()
	w, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	o := RunOptions{Devices: "cpu", Threads: 1, Microbatches: 4}
	o.DeviceMemory.Percent = percent
	s, err := open(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	x := &timed{s: s, predicted: s.on.Plan.Memory[0].Seconds}
	x.run(t, 3)
	x.measured = math.Inf(1)
	return x
}

// run takes steps, and keeps their mean if it is the least.
func (x *timed) run(t *testing.T, steps int) {
	t.Helper()
	before := processorTime(t)
	for range steps {
		if err := x.s.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.s.finish(); err != nil {
		t.Fatal(err)
	}
	x.measured = min(x.measured, (processorTime(t)-before).Seconds()/float64(steps))
}

// close ends the session.
func (x *timed) close(t *testing.T) {
	t.Helper()
	if err := x.s.close(); err != nil {
		t.Error(err)
	}
}

// processorTime is the time that this process has computed.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
