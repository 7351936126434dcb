package executor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
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
