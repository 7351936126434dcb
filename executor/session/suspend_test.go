package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// soon is a context for what should not take long.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runtest.Slowdown*30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// alone trains a config on devices of its own.
func alone(t *testing.T, c *configs.Config, o berth.TrainOptions) (rep *berth.Report, floor, peak int64) {
	t.Helper()
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rep = runtest.Train(t, r, o)
	for _, f := range r.Plan().Memory {
		floor, peak = max(floor, f.Floor), max(peak, f.Peak)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return rep, floor, peak
}

// training is a run that trains in a goroutine of its own.
type training struct {
	run    *berth.Run
	steps  chan int // one for each step, from its observer
	ended  chan error
	report *berth.Report
}

// train starts to train a run that was opened on shared devices. o's observer is the test's.
func train(ctx context.Context, r *berth.Run, o berth.TrainOptions) *training {
	x := &training{run: r, steps: make(chan int, 1<<16), ended: make(chan error, 1)}
	o.Observer = &berth.Observer{Step: func(s berth.Step) { x.steps <- s.Step }}
	go func() {
		var err error
		x.report, err = r.Train(ctx, o)
		x.ended <- err
	}()
	return x
}

// reach waits for a step.
func (x *training) reach(t *testing.T, step int) {
	t.Helper()
	for {
		select {
		case at := <-x.steps:
			if at >= step {
				return
			}
		case <-soon(t).Done():
			t.Fatalf("step %d does not come", step)
		}
	}
}

// still counts the steps that come within a short time.
func (x *training) still() int {
	for len(x.steps) > 0 {
		<-x.steps
	}
	time.Sleep(20 * time.Millisecond)
	return len(x.steps)
}

// A training that is suspended takes no step, gives its memory to one that needs all of it, and ends with the
// weights that it has alone. What it has on the device leaves and comes back.
func TestSuspendedTraining(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=2")
	want, floor, peak := alone(t, c, berth.TrainOptions{})
	d := runtest.OpenDevices(t, "cpu", max(floor, peak)+floor/2)
	first, second := runtest.OpenOn(t, d, c), runtest.OpenOn(t, d, c)
	x := train(t.Context(), first, berth.TrainOptions{Dir: t.TempDir(), AssertResident: true})
	x.reach(t, 5)
	for range 2 {
		if err := first.Suspend(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	if n := x.still(); n > 0 {
		t.Errorf("%d steps while it is suspended", n)
	}
	y := runtest.Train(t, second, berth.TrainOptions{})
	if y.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("the other one has other weights")
	}
	if err := first.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := <-x.ended; err != nil {
		t.Fatal(err)
	}
	if x.report.WeightsSHA256 != want.WeightsSHA256 || x.report.SuspendedS <= 0.02 {
		t.Errorf("weights %s, alone %s; suspended for %v s", x.report.WeightsSHA256, want.WeightsSHA256, x.report.SuspendedS)
	}
	if x.report.Ledger.SpillBytes == 0 {
		t.Error("nothing has left the device")
	}
	if p95 := x.report.Throughput.StepMSP95 / 1e3; p95 > x.report.SuspendedS {
		t.Errorf("a step took %v s, suspended for %v s", p95, x.report.SuspendedS)
	}
}

var _ = []any{errors.New, fmt.Sprint, sync.Mutex{}, rapid.Check, device.ErrLost, fault.Lost, testall.Long}
