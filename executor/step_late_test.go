package executor_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
)

// The speeds of slow devices: what takes time there is known.
const (
	slowKernel = 1 * time.Millisecond
	slowLink   = 1 << 18 // bytes a second
)

// slowDevice is a device whose kernels and copies take long. Without late inputs, its
// launches begin when all inputs are there.
type slowDevice struct {
	device.Device
	late bool
}

func (d slowDevice) Spec() device.Spec {
	s := d.Device.Spec()
	s.LateInputs = d.late
	return s
}

func (d slowDevice) NewStream(name string) (device.Stream, error) {
	s, err := d.Device.NewStream(name)
	if err != nil || d.late {
		return s, err
	}
	return struct {
		device.Stream
		device.Compactor
	}{s, s.(device.Compactor)}, nil
}

// spans are the kernels, launches and copies of a device.
type spans struct {
	mu      sync.Mutex
	kernels []device.KernelSpan
	others  []device.Span
}

func (x *spans) kernel(k device.KernelSpan) {
	time.Sleep(slowKernel)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.kernels = append(x.kernels, k)
}

func (x *spans) other(s device.Span) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.others = append(x.others, s)
}

// early counts the launches of which a kernel had ended when a copy in ended for which the
// launch waited.
func (x *spans) early() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.others {
		if l.Stream != device.ComputeStream || l.Waited == 0 {
			continue
		}
		first := slices.IndexFunc(x.kernels, func(k device.KernelSpan) bool { return k.Launch == l.Event })
		if first >= 0 && slices.ContainsFunc(x.others, func(c device.Span) bool {
			return c.What == "copy-in" && c.End.After(x.kernels[first].End) && c.End.Before(l.End)
		}) {
			n++
		}
	}
	return n
}

// openSlow opens a slow device.
func openSlow(t *testing.T, bytes int64, late bool, seen *spans) []device.Device {
	t.Helper()
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: bytes, OnKernel: seen.kernel, OnSpan: seen.other})
	if err != nil {
		t.Fatal(err)
	}
	devs = faults.Intercept(devs, func(o faults.Operation) faults.Outcome {
		if o.Op != faults.CopyIn && o.Op != faults.CopyOut {
			return faults.Outcome{}
		}
		took := time.Duration(len(o.Host.Bytes())) * time.Second / slowLink
		return faults.Outcome{After: device.Event{Queue: &pastTime{took: took}, Seq: 1}}
	})
	return []device.Device{slowDevice{devs[0], late}}
}

// pastTime is a queue whose operation takes some time from when another one comes to it.
type pastTime struct {
	took time.Duration
	mu   sync.Mutex
	over bool
}

func (q *pastTime) Finished(uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.over
}

func (q *pastTime) Err(uint64) error { return nil }

func (q *pastTime) Await(context.Context, uint64) error {
	if !q.Finished(1) {
		time.Sleep(q.took)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	return nil
}

// slowPlan plans the job for a slow device, with the times of its kernels.
func slowPlan(t *testing.T, j job, devs []device.Device, bytes int64) *partition.Plan {
	t.Helper()
	g, err := j.train(j.microbatch, j.batch())
	if err != nil {
		t.Fatal(err)
	}
	spec := devs[0].Spec()
	spec.MemoryBytes = bytes
	p, err := partition.New(g, partition.PlanOptions{
		Devices: []device.Spec{spec}, Microbatches: j.microbatches,
		Estimate: func(_ int, g *graph.Graph, o device.CompileOptions) (device.Memory, error) {
			return devs[0].Estimate(g, o)
		},
		Seconds: func(_ int, g *graph.Graph) (float64, bool) {
			return slowKernel.Seconds() * float64(fuse.Cut(g, nil).Kernels()), true
		},
		HostSeconds: func(_ int, bytes int64, _ bool) (float64, bool) { return float64(bytes) / slowLink, true },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// slowStep is the predicted and the measured time of a step in little memory. The measured
// one is the least of several.
func slowStep(t *testing.T, late bool, seen *spans) (predicted *partition.Prediction, measured float64) {
	t.Helper()
	j := gptJob(2)
	plenty := openSlow(t, memory, late, seen)
	peak := slowPlan(t, j, plenty, 0).Memory[0].Peak
	if err := plenty[0].Close(); err != nil {
		t.Fatal(err)
	}
	devs := openSlow(t, peak*9/10, late, seen)
	plan := slowPlan(t, j, devs, devs[0].Spec().MemoryBytes)
	predicted, err := plan.Predict(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{job: j, devs: devs}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	if r.rt, err = executor.NewRuntime(devs, executor.RuntimeOptions{}); err == nil {
		r.prog, err = r.rt.Load(executor.LoadOptions{Net: "train", Constant: j.constant, LastMicrobatches: 1, Full: plan})
	}
	if err == nil {
		err = r.fill()
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		begin := time.Now()
		step(t, r, r.prog, i, j.batch())
		if err := r.prog.Drain(short(t)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin).Seconds(); i == 1 || i > 1 && took < measured {
			measured = took
		}
	}
	return predicted, measured
}

// With late inputs, a launch in little memory computes while copies that it reads later
// still come, and without them none does. The predicted time of a step is shorter by that,
// and near the measured one, of which most is known: kernels and copies that sleep.
func TestLateInputsInLittleMemory(t *testing.T) {
	testall.Long(t)
	var whole, late spans
	before, took := slowStep(t, false, &whole)
	after, shorter := slowStep(t, true, &late)
	t.Logf("predicted %.3f s and with late inputs %.3f s, measured %.3f s and %.3f s", before.Seconds, after.Seconds, took, shorter)
	if n := whole.early(); n > 0 {
		t.Errorf("%d launches began before their inputs were there", n)
	}
	if late.early() == 0 {
		t.Error("no launch computed before all its inputs were there")
	}
	if after.Seconds >= before.Seconds || after.Moving.Waits >= before.Moving.Waits || after.Moving.Waits <= 0 {
		t.Errorf("late inputs save nothing: %v s, %v s of it for copies; without them %v s, %v s of it", after.Seconds, after.Moving.Waits, before.Seconds, before.Moving.Waits)
	}
	for _, x := range [][2]float64{{before.Seconds, took}, {after.Seconds, shorter}} {
		if ratio := x[0] / x[1]; ratio < 0.3 || ratio > 1.1 { // a busy machine is slower
			t.Errorf("predicted %.3f s, measured %.3f s", x[0], x[1])
		}
	}
}
