//go:build unix

package bench

import (
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// TestPredictedTime compares the predicted time of steps with the time of the
// processor, which other programs do not lengthen: a limit on memory lengthens both
// alike. The times themselves are rough.
func TestPredictedTime(t *testing.T) {
	if !testall.Wanted() {
		t.Skip("takes seconds: TEST_ALL=1 runs it")
	}
	for _, x := range []struct {
		name    string
		percent float64
		steps   int
	}{{"mlp", 65, 60}, {"cnn", 55, 10}, {"gpt-nano", 50, 10}, {"gpt-nano", 25, 10}} {
		free := stepTimes(t, x.name, 0, x.steps)
		limited := stepTimes(t, x.name, x.percent, x.steps)
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

// stepTime is the time of a step, in seconds.
type stepTime struct{ predicted, measured float64 }

func stepTimes(t *testing.T, name string, percent float64, steps int) (x stepTime) {
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
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	run := func(n int) time.Duration {
		before := processorTime(t)
		for range n {
			if err := s.step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		return processorTime(t) - before
	}
	run(3)
	return stepTime{s.memory[0].Seconds, run(steps).Seconds() / float64(steps)}
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
