package executor_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// least is the smallest budget per device that the tasks of a job can run in: the
// bytes that the largest task leases.
func least(o executor.LoadOptions, devices int) []int64 {
	most := make([]int64, devices)
	for _, plan := range []*partition.Plan{o.Full, o.Tail} {
		if plan == nil {
			continue
		}
		for _, seg := range plan.Segments {
			for _, v := range []partition.Variant{seg.First, seg.Later} {
				bytes, seen := int64(0), map[string]bool{}
				for _, s := range append(v.In[:len(v.In):len(v.In)], v.Out...) {
					if !seen[s.Value.Name] {
						seen[s.Value.Name] = true
						bytes += s.Value.Meta.Bytes()
					}
				}
				most[seg.Device] = max(most[seg.Device], bytes)
			}
		}
	}
	return most
}

// With the least possible memory, all tensors outside the running task are
// spilled, and the weights are the same.
func TestSameWeightsInLittleMemory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		w := rapid.SampledFrom(ways()).Draw(t, "way")
		more := rapid.SampledFrom([]int64{0, 4, 100, 1000}).Draw(t, "more")
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		devs, err := openDevices("cpu", w.devices, w.threads)
		if err != nil {
			t.Fatal(err)
		}
		o, err := j.options(devs, w.schedule)
		if err != nil {
			t.Fatal(err)
		}
		budgets := least(o, w.devices)
		for i := range budgets {
			budgets[i] += more
		}
		got, err := trained(j, devs, w.schedule, residency.ManagerOptions{Budgets: budgets})
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestTooLittleMemorySaysSo(t *testing.T) {
	for devices := 1; devices <= 3; devices++ {
		for short := range devices {
			devs, err := openDevices("cpu", devices, 1)
			if err != nil {
				t.Fatal(err)
			}
			o, err := gptJob(3).options(devs, "1f1b")
			if err != nil {
				t.Fatal(err)
			}
			budgets := least(o, devices)
			budgets[short]--
			_, err = trained(gptJob(3), devs, "1f1b", residency.ManagerOptions{Budgets: budgets})
			var task *executor.TaskError
			if !errors.Is(err, residency.ErrBudget) || !errors.As(err, &task) {
				t.Fatalf("got %v, want a task's ErrBudget", err)
			}
			if want := fmt.Sprintf("cpu:%d", short); string(task.Device) != want {
				t.Errorf("the error is %s's, want %s's: %v", task.Device, want, err)
			}
		}
	}
}

// The order of uses is known, so residency evicts the tensor needed last. If many
// activations wait for their backward pass, this spills less than evicting the
// least recently used one, which is needed next.
func TestKnownOrderSpillsLess(t *testing.T) {
	for devices := 1; devices <= 3; devices++ {
		known, blind := spilled(t, devices, true), spilled(t, devices, false)
		t.Logf("%d devices: %d bytes spilled, %d without the order", devices, known, blind)
		if known == 0 || known >= blind {
			t.Errorf("%d devices: %d bytes were spilled, and %d without knowing the order", devices, known, blind)
		}
	}
}

// spilled is the bytes that some steps spill in little more than the least
// memory.
func spilled(t *testing.T, devices int, known bool) int64 {
	t.Helper()
	j := gptJob(4)
	devs, err := openDevices("cpu", devices, 1)
	if err != nil {
		t.Fatal(err)
	}
	o, err := j.options(devs, "gpipe")
	if err != nil {
		t.Fatal(err)
	}
	budgets := least(o, devices)
	for i := range budgets {
		budgets[i] += budgets[i] / 8
	}
	r, err := newRig(j, devs, "gpipe", residency.ManagerOptions{Budgets: budgets})
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		step(t, r, r.prog, i, j.batch())
		if !known {
			r.rt.Residency.SetUses(nil)
		}
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	return r.rt.Residency.Ledger().Total(residency.Spill).Bytes
}
