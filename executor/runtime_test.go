package executor_test

import (
	"errors"
	"testing"

	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

func TestClosedRuntime(t *testing.T) {
	r := mustRig(t, mlpJob(2), "cpu", 2, "1f1b", residency.ManagerOptions{})
	b, err := r.feed(0, r.batch())
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := r.prog.Step(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.rt.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := r.prog.Wait(short(t), ticket); err != nil {
		t.Errorf("the step that Close has waited for: %v", err)
	}
	_, err = r.prog.Step(t.Context(), b)
	_, loadErr := r.rt.Load(executor.LoadOptions{Full: &partition.Plan{Graph: r.prog.Graph()}})
	for _, err := range []error{err, loadErr, r.prog.Init(t.Context(), nil)} {
		if !errors.Is(err, executor.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
}

// A runtime leaves devices alone that no plan uses: they can be closed while it runs.
func TestUnusedDevices(t *testing.T) {
	devs, err := openDevices("cpu", 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := executor.NewRuntime(devs, executor.RuntimeOptions{Used: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []int{0, 2} {
		if rt.Devices[d] != nil || rt.Memory(d).Peak != 0 {
			t.Errorf("device %d is used: %v", d, rt.Memory(d))
		}
		if err := devs[d].Close(); err != nil {
			t.Error(err)
		}
	}
	if rt.Devices[1] != devs[1] || len(rt.Busy()) != 1 {
		t.Errorf("the plan's device is %v; %d are busy", rt.Devices[1], len(rt.Busy()))
	}
	if err := errors.Join(rt.Close(), devs[1].Close()); err != nil {
		t.Error(err)
	}
}
