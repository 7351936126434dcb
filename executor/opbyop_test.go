package executor_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
)

// Op by op, a task has one op, and the values between two of them are tensors.
func TestTasksOpByOp(t *testing.T) {
	j := cnnJob(2)
	j.alone = true
	r := mustRig(t, j, "cpu", 1, "gpipe", residency.ManagerOptions{})
	ops := 0
	r.rt.OnLaunch(func(x executor.Launched) {
		if x.Call == nil {
			t.Errorf("%s is a whole segment", x.Task)
		} else if n := x.Call.Node; n != nil {
			ops++
		}
	})
	step(t, r, r.prog, 1, j.batch())
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	if nodes := len(r.prog.Graph().Nodes); ops < nodes {
		t.Errorf("a step of 2 microbatches ran %d ops, its graph has %d nodes", ops, nodes)
	}
	if got := r.devs[0].Stats(); got.Launches < int64(ops) {
		t.Errorf("%d launches for %d ops", got.Launches, ops)
	}
	if names, err := r.leftovers(); err != nil || len(names) > 0 {
		t.Errorf("left %v; %v", names, err)
	}
}

// The first op whose result is not finite is named.
func TestOpThatIsNotFinite(t *testing.T) {
	j := mlpJob(1)
	j.alone, j.optim.ClipNorm = true, 0
	j.optim.Schedule.Base = 1e38
	r := mustRig(t, j, "cpu", 1, "gpipe", residency.ManagerOptions{})
	var err error
	for i := range 4 {
		b, e := r.feed(i, j.batch())
		if e != nil {
			t.Fatal(e)
		}
		if _, err = r.prog.Step(short(t), b); err != nil {
			break
		}
	}
	if err == nil {
		err = r.prog.Drain(short(t))
	}
	var nf *device.NonFiniteError
	var task *executor.TaskError
	if !errors.As(err, &nf) || !errors.As(err, &task) {
		t.Fatalf("got %v", err)
	}
	if nf.Node == nil || !strings.HasSuffix(task.Task, "/"+nf.Value) {
		t.Errorf("task %s, value %s", task.Task, nf.Value)
	}
}

// An update whose result is not finite was written: after it, the variables are those
// of no step.
func TestUpdateThatIsNotFinite(t *testing.T) {
	j := mlpJob(1)
	j.alone, j.optim.ClipNorm, j.optim.Name, j.optim.Keys = true, 0, "sgd", optim.SGD{Decay: optim.Decay{WeightDecay: 100}}
	j.optim.Schedule.Base = 3e38
	r := mustRig(t, j, "cpu", 1, "gpipe", residency.ManagerOptions{})
	err := r.run(short(t))
	var task *executor.TaskError
	if !errors.Is(err, device.ErrNonFinite) || !errors.As(err, &task) {
		t.Fatalf("got %v", err)
	}
	if last, err := r.prog.Whole(); !errors.Is(err, executor.ErrHalf) {
		t.Errorf("after %s failed, the variables are those of step %d: %v", task.Task, last, err)
	}
}

// The ops of a step are counted before their tasks are made: a host with room for the
// launches has none for so many ops.
func TestTooManyOps(t *testing.T) {
	defer executor.HaveAvailable(64 << 20)()
	j := mlpJob(700)
	j.microbatch = 1
	if r, err := newOnCPU(t, j); err != nil {
		t.Errorf("compiled: %v", err)
	} else if err := r.close(); err != nil {
		t.Error(err)
	}
	j.alone = true
	r, err := newOnCPU(t, j)
	if !errors.Is(err, executor.ErrLaunches) || !strings.Contains(err.Error(), " ops, which take about ") {
		t.Errorf("op by op: %v", err)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

// newOnCPU is a rig on one device.
func newOnCPU(t *testing.T, j job) (*rig, error) {
	t.Helper()
	devs, err := openDevices("cpu", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return newRig(j, devs, "gpipe", residency.ManagerOptions{})
}

// A long run op by op takes no more memory than its first calls: a million of them with
// TEST_ALL.
func TestManyOpsKeepTheirMemory(t *testing.T) {
	j := mlpJob(1)
	j.alone = true
	r := mustRig(t, j, "cpu", 1, "gpipe", residency.ManagerOptions{})
	ctx, calls := t.Context(), 0 // a slow machine takes long for a million
	r.rt.OnLaunch(func(executor.Launched) { calls++ })
	b, err := r.feed(0, j.batch())
	if err != nil {
		t.Fatal(err)
	}
	run := func(until int) (heap, live int64) {
		for calls < until {
			if _, err := r.prog.Step(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.prog.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), r.devs[0].Stats().Live
	}
	most := testall.Or(10_000, testall.Most(1_000_000, 50_000))
	heap, live := run(most / 5)
	if h, l := run(most); h > heap+256<<10 || l != live {
		t.Errorf("after %d calls %d bytes of heap and %d of the device are in use, after %d %d and %d", most/5, heap, live, calls, h, l)
	}
}

// A step of slow ops that is cancelled queues no more of them.
func TestCancelledBetweenOps(t *testing.T) {
	j := mlpJob(8)
	j.alone = true
	devs, err := openDevices("cpu", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	queued := 0
	r, err := newRig(j, faults.Intercept(devs, func(o faults.Operation) faults.Outcome {
		if o.Op == faults.Launch {
			if queued++; queued == 10 {
				cancel()
			}
		}
		return faults.Outcome{}
	}), "gpipe", residency.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.feed(0, j.batch())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.prog.Step(ctx, b); !errors.Is(err, context.Canceled) || queued != 10 {
		t.Errorf("%d ops were queued: %v", queued, err)
	}
	if _, err := r.prog.Step(short(t), b); err != nil {
		t.Errorf("the step is taken again: %v", err)
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Error(err)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}
