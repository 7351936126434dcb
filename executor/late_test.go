package executor_test

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/residency"
)

// A segment begins when the inputs of its first kernels are there: those of the layers
// behind still come. The weights are the same.
func TestSegmentBeginsBeforeItsLastInputs(t *testing.T) {
	j := mlpJob(1)
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	kernels := make(chan device.KernelSpan, 1000)
	devs, err := device.Open("cpu", device.OpenOptions{
		Count: 1, Threads: 1, MemoryBytes: memory, OnKernel: func(k device.KernelSpan) { kernels <- k },
	})
	if err != nil {
		t.Fatal(err)
	}
	late, copies := newGate(), 0
	r, err := newRig(j, faults.Intercept(devs, func(o faults.Operation) faults.Outcome {
		if o.Op == faults.CopyIn {
			if copies++; copies == 4 { // after the first layer's input, weight and bias
				return faults.Outcome{After: device.Event{Queue: gated{late, nil}, Seq: 1}}
			}
		}
		return faults.Outcome{}
	}), "gpipe", residency.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	step(t, r, r.prog, 0, j.batch())
	select {
	case k := <-kernels:
		if k.Work.Nodes[0].Layer.Name != "a" {
			t.Errorf("%v runs first", k.Work.Nodes)
		}
	case <-short(t).Done():
		t.Error("no kernel ran before all inputs were there")
	}
	late.open()
	for i := 1; i < len(j.epoch()); i++ {
		step(t, r, r.prog, i, j.batch())
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	got, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(want, got); d != "" {
		t.Error(d)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}
