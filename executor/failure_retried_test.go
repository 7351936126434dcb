package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/residency"
)

// failFirst makes the first copy into a device fail with a cause, and so many
// repetitions of it, each on a stream of its own. From the next launch on, everyone knows.
func failFirst(devs []device.Device, repetitions int, cause error) []device.Device {
	var in device.Stream
	var repeated []device.Stream
	return faults.Intercept(devs, func(o faults.Operation) faults.Outcome {
		switch {
		case o.Op == faults.CopyIn && in == nil:
			in = o.Stream
			return faults.Outcome{After: faults.Fails(fmt.Errorf("first: %w", cause))}
		case o.Op == faults.Repeat:
			if slices.Contains(repeated, o.Stream) {
				break
			}
			if repeated = append(repeated, o.Stream); len(repeated) <= repetitions {
				return faults.Outcome{After: faults.Fails(fmt.Errorf("repeat %d: %w", len(repeated), cause))}
			}
		case o.Op == faults.Launch && in != nil:
			_ = in.Record().Wait(context.Background())
		}
		return faults.Outcome{}
	})
}

// A copy is told as taken again, once the steps have ended that could wait for it. The
// failure that ends a step, or is a device's loss, is told by that error alone.
func TestRetried(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name        string
		repetitions int  // that fail
		ahead       bool // the copy is queued before the step, and has failed by then
		cause       error
		told        int
	}{
		{"mended", 1, false, boom, 2},
		{"known before the step", 2, true, boom, 3},
		{"met by the step", 2, false, boom, 2},
		{"lost", 0, true, fmt.Errorf("%w: %w", boom, device.ErrLost), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			devs, err := openDevices("cpu", 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			devs = failFirst(devs, c.repetitions, c.cause)
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
			if err == nil { // a later task may have met the failure
				if told := r.rt.Retried(); len(told) > 0 {
					t.Errorf("during the step, it tells %v", told)
				}
				err = r.prog.Drain(short(t))
			}
			if failed := err != nil; failed != (c.repetitions == 2 && !c.ahead) || failed && !errors.Is(err, boom) {
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
