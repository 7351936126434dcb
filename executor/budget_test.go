package executor_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// least is the least memory per device in which the tasks of a job can run: the
// bytes that the largest task leases, its scratch included.
func least(t fataler, j job, devices, threads int, schedule string) []int64 {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	devs, err := openDevices("cpu", devices, threads)
	check(err)
	o, err := j.options(devs, schedule)
	check(err)
	most := slices.Repeat([]int64{device.MemoryUnit}, devices)
	var all [][]partition.Launch
	add := func(p *partition.Plan, step partition.StepOptions) {
		launches, err := p.Launches(step)
		check(err)
		all = append(all, launches)
	}
	add(o.Full, partition.StepOptions{Microbatches: j.microbatches})
	if o.Tail != nil {
		add(o.Full, partition.StepOptions{Microbatches: o.LastMicrobatches, Tail: o.Tail})
	}
	for _, p := range o.Buckets {
		add(p, partition.StepOptions{Microbatches: j.microbatches})
	}
	for _, launches := range all {
		for _, l := range launches {
			m, err := devs[l.Device].Estimate(l.Variant.Graph, device.CompileOptions{Alias: l.Variant.Alias})
			check(err)
			bytes := roundUp(m.Temporary)
			for _, n := range l.Needs {
				bytes += roundUp(n.Value.Meta.Bytes())
			}
			most[l.Device] = max(most[l.Device], bytes)
		}
	}
	for _, d := range devs {
		check(d.Close())
	}
	return most
}

// fataler is a test, of rapid or not.
type fataler interface {
	Helper()
	Fatal(...any)
}

func roundUp(bytes int64) int64 {
	return (bytes + device.MemoryUnit - 1) / device.MemoryUnit * device.MemoryUnit
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
		bytes := least(t, j, w.devices, w.threads, w.schedule)
		for i := range bytes {
			bytes[i] = max(device.MemoryUnit, bytes[i]+more) // a device may have no stage
		}
		devs, err := openSized(bytes, w.threads)
		if err != nil {
			t.Fatal(err)
		}
		got, err := trained(j, devs, w.schedule, residency.ManagerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// A large gradient stays in parts in the least memory: its sums over microbatches, and what a norm
// reads. The weights are the same.
func TestSameWeightsOfGradientsInParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		microbatches int
		clip         float64
		reduction    partition.Reduction
	}{{1, 0.01, partition.ReduceOrder}, {3, 0, partition.ReduceOrder}, {3, 0.01, partition.ReduceOrder}, {3, 0.01, partition.ReduceTree}} {
		j := broadJob(c.microbatches)
		j.optim.Name, j.optim.ClipNorm, j.reduction, j.last = "adam", c.clip, c.reduction, 2
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		w := way{devices: 1, threads: 2, schedule: "1f1b"}
		tight, devs, err := w.within(j, func(int64) int64 { return 64 })
		if err != nil {
			t.Fatal(err)
		}
		o, err := tight.plan(devs, w.schedule)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := j.train(j.microbatch, j.batch())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(o.Full.Graph.Accums) > len(whole.Accums); got != (c.microbatches > 1) {
			t.Errorf("%+v: sums over microbatches are in parts: %v", c, got)
		}
		squares := slices.ContainsFunc(o.Full.Graph.Nodes, func(n *graph.Node) bool { return n.Op.Kind() == "square_parts" })
		if squares != (c.clip > 0) {
			t.Errorf("%+v: a norm is of parts: %v", c, squares)
		}
		got, err := trained(tight, devs, w.schedule, residency.ManagerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Errorf("%+v: %s", c, d)
		}
	}
}

func TestTooLittleMemorySaysSo(t *testing.T) {
	for devices := 1; devices <= 3; devices++ {
		for short := range devices {
			bytes := least(t, gptJob(3), devices, 1, "1f1b")
			bytes[short]--
			devs, err := openSized(bytes, 1)
			if err != nil {
				t.Fatal(err)
			}
			_, err = trained(gptJob(3), devs, "1f1b", residency.ManagerOptions{})
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
	bytes := least(t, j, devices, 1, "gpipe")
	for i := range bytes {
		bytes[i] += bytes[i] / 8
	}
	devs, err := openSized(bytes, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRig(j, devs, "gpipe", residency.ManagerOptions{})
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
	return r.rt.Residency.Ledger().Total(ledger.Spill).Bytes
}
