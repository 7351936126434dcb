package executor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/residency"
)

// failOne makes the nth copy into a device fail with a cause. From the next launch on,
// everyone knows.
func failOne(devs []device.Device, n int, cause error) []device.Device {
	var in device.Stream
	copies := 0
	return faults.Intercept(devs, func(o faults.Operation) faults.Outcome {
		switch {
		case o.Op == faults.CopyIn:
			if copies++; copies == n {
				in = o.Stream
				return faults.Outcome{After: faults.Fails(cause)}
			}
		case o.Op == faults.Launch && in != nil:
			_ = in.Record().Wait(context.Background())
		}
		return faults.Outcome{}
	})
}

// A copy is told as taken again only once no step can fail because of it, and never
// that of a lost device: the error of the step, or of the loss, tells of it.
func TestRetried(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name  string
		ahead bool // the copy is queued before the step, and has failed by then
		cause error
		told  int
	}{
		{"known before the step", true, boom, 1},
		{"met by the step", false, boom, 0},
		{"lost", true, fmt.Errorf("%w: %w", boom, device.ErrLost), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			devs, err := openDevices("cpu", 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			devs = failOne(devs, 1, c.cause)
			r, err := newRig(mlpJob(2), devs, "1f1b", residency.ManagerOptions{})
			defer func() {
				if err := r.close(); err != nil {
					t.Error(err)
				}
			}()
			if err != nil {
				t.Fatal(err)
			}
			if c.ahead {
				x := r.prog.Var(r.prog.Graph().Vars[0].Name)
				if err := r.rt.Residency.Prefetch(short(t), []residency.Need{{Tensor: x, Mode: residency.Read}}); err != nil {
					t.Fatal(err)
				}
				r.rt.Residency.Settle()
			}
			b, err := r.feed(0, r.batch())
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.prog.Step(short(t), b)
			if told := r.rt.Retried(); len(told) > 0 {
				t.Errorf("during the step, it tells %v", told)
			}
			if err == nil { // a later task may have met the failure
				err = r.prog.Drain(short(t))
			}
			if failed := err != nil; failed == c.ahead || failed && !errors.Is(err, boom) {
				t.Errorf("the step: %v", err)
			}
			if told := r.rt.Retried(); len(told) != c.told {
				t.Errorf("it tells %v", told)
			}
			if told := r.rt.Retried(); len(told) > 0 {
				t.Errorf("it tells again: %v", told)
			}
		})
	}
}
