package executor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
)

// outcome is the result of a run with a fault.
type outcome struct {
	err   error // the first
	ended bool  // and all further steps failed too
	late  bool  // no step met the fault, but the end of the run did
	vars  map[string][]byte
}

// survive runs an epoch on devices with a fault and takes every step that
// fails again, as long as that can succeed.
func survive(t *testing.T, j job, devs []device.Device) (out outcome) {
	t.Helper()
	ctx := short(t)
	r, err := newRig(j, devs, "1f1b", residency.ManagerOptions{})
	defer func() {
		if err := r.close(); err != nil {
			t.Errorf("after %v: closing: %v", out.err, err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range j.epoch() {
		b, err := r.feed(i, n)
		if err != nil {
			t.Fatal(err)
		}
		next := r.prog.Next()
		ticket, err := r.prog.Step(ctx, b)
		if err != nil {
			out.err = cmp.Or(out.err, err)
			if left, err := r.leftovers(); err != nil || len(left) > 0 {
				t.Errorf("after %v: %v, %v", out.err, left, err)
			}
			if r.prog.Next() != next {
				t.Errorf("a step that failed changes the next ticket from %d to %d", next, r.prog.Next())
			}
			ticket, err = r.prog.Step(ctx, b)
		}
		if err == nil && i%2 == 0 {
			err = r.prog.Wait(ctx, ticket)
		}
		if err != nil {
			r.stayFailed(t, ctx, b, err)
			return outcome{err: cmp.Or(out.err, err), ended: true}
		}
	}
	if err := r.prog.Drain(ctx); err != nil {
		r.stayFailed(t, ctx, executor.Batch{}, err)
		return outcome{err: cmp.Or(out.err, err), ended: true}
	}
	if left, err := r.leftovers(); err != nil || len(left) > 0 {
		t.Errorf("after an epoch: %v, %v", left, err)
	}
	if out.vars, err = r.vars(ctx); err != nil && out.err == nil { // the fault is met here
		out.vars, err = r.vars(ctx)
		out.late = true
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// likewise reports whether two failures are of the same task for the same
// cause. Which tensor's copy brought it may differ: a task may wait for several
// on one queue that failed, and meets them as they end.
func likewise(a, b error) bool {
	if a.Error() == b.Error() {
		return true
	}
	var x, y *executor.TaskError
	return errors.As(a, &x) && errors.As(b, &y) && x.Task == y.Task && x.Device == y.Device &&
		errors.Is(a, errBoom) && errors.Is(b, errBoom)
}

// stayFailed checks that a runtime which failed does so, at once.
func (r *rig) stayFailed(t *testing.T, ctx context.Context, b executor.Batch, cause error) {
	t.Helper()
	start := time.Now()
	for range 2 {
		if len(b.Fields) > 0 {
			if _, err := r.prog.Step(ctx, b); err == nil || !likewise(err, cause) {
				t.Errorf("a step after %v gives %v", cause, err)
			}
		}
		if err := r.prog.Drain(ctx); err != nil && !likewise(err, cause) {
			t.Errorf("drain after %v gives %v", cause, err)
		}
		if err := r.prog.Wait(ctx, r.prog.Next()); err != nil && !likewise(err, cause) {
			t.Errorf("waiting after %v gives %v", cause, err)
		}
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("calls after a failure took %v", d)
	}
}

// roomy is the memory of devices that have plenty.
func roomy(devices int) []int64 { return slices.Repeat([]int64{memory}, devices) }

// sweep lets each operation of a kind fail in turn, on devices with so many
// bytes, and hands the outcome to check. Without TEST_ALL, every fifth one.
func sweep(t *testing.T, j job, bytes []int64, op faults.Op, late bool, check func(f *fault, out outcome)) {
	t.Helper()
	n, every := 1, testall.Or(11, 1)
	for ; ; n += every {
		devs, err := openSized(bytes, 1)
		if err != nil {
			t.Fatal(err)
		}
		f := &fault{op: op, n: n, late: late}
		out := survive(t, j, withFaults(devs, f))
		if !f.fired() {
			if out.err != nil {
				t.Errorf("without a fault: %v", out.err)
			}
			break
		}
		if out.late {
			continue
		}
		if out.err == nil || !errors.Is(out.err, errBoom) {
			t.Fatalf("%s %d: got %v, want the fault", op, n, out.err)
		}
		check(f, out)
	}
	if n < 5 {
		t.Fatalf("there were only %d operations of kind %s", n-1, op)
	}
}

// A task that fails when it runs ends the run, and is named.
func TestFaultsOfTasksAreNamed(t *testing.T) {
	t.Parallel()
	for devices := 1; devices <= 3; devices++ {
		sweep(t, faultJob(), roomy(devices), faults.Launch, true, func(f *fault, out outcome) {
			var task *executor.TaskError
			if !errors.As(out.err, &task) || !out.ended {
				t.Fatalf("launch %d: got %v, want the end of the run by a task", f.n, out.err)
			}
			name := strings.TrimRight(task.Task, "-0123456789")
			if name != strings.TrimRight(f.where, "0123456789") || task.Device != f.on {
				t.Errorf("launch %d: the error names %s on %s, it was %s on %s", f.n, task.Task, task.Device, f.where, f.on)
			}
			if grid := task.Grid(); !strings.Contains(grid, "["+task.Action.String()+"]") || !strings.HasPrefix(task.Task, fmt.Sprintf("s%d.", task.Action.Stage)) {
				t.Errorf("launch %d, %s: its cell is not marked in\n%s", f.n, task.Task, grid)
			}
			if !strings.HasPrefix(out.err.Error(), task.Task+" on "+string(f.on)+": ") {
				t.Errorf("launch %d: the message is %q", f.n, out.err)
			}
		})
	}
}

// A copy that fails when it runs is the failure of the first task that needs
// it, whenever the executor comes to know.
func TestFaultsOfCopiesAreNamed(t *testing.T) {
	t.Parallel()
	for _, op := range []faults.Op{faults.CopyIn, faults.Peer} {
		names := map[int]string{}
		for range 2 {
			sweep(t, faultJob(), roomy(2), op, true, func(f *fault, out outcome) {
				var task *executor.TaskError
				if !errors.As(out.err, &task) {
					t.Fatalf("%s %d: %v names no task", op, f.n, out.err)
				}
				name := fmt.Sprint(task.Task, " ", task.Device)
				if names[f.n] == "" {
					names[f.n] = name
				}
				if names[f.n] != name {
					t.Errorf("%s %d: the error names %s, before it was %s", op, f.n, name, names[f.n])
				}
			})
		}
	}
}

// A copy that failed ends the run at once, though no task waits for it yet: a
// later step fails alike, also where its own copies are still under way.
func TestFailedCopyEndsTheRun(t *testing.T) {
	devs, err := openDevices("cpu", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	failing := &fault{op: faults.CopyIn, late: true, met: true}
	under := &fault{op: faults.CopyIn, pass: true, gate: newGate()}
	devs = withFaults(devs, failing, under)
	r, err := newRig(faultJob(), devs, "1f1b", residency.ManagerOptions{})
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	step(t, r, r.prog, 0, r.batch()) // copies the variables
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	failing.next()
	b, err := r.feed(1, r.batch())
	if err != nil {
		t.Fatal(err)
	}
	var task *executor.TaskError
	_, first := r.prog.Step(short(t), b)
	if first == nil { // the copy was still being repeated
		first = r.prog.Drain(short(t))
	}
	if !errors.As(first, &task) || !errors.Is(first, errBoom) {
		t.Fatalf("got %v, want a task whose copy failed", first)
	}
	under.next()
	_, meanwhile := r.prog.Step(short(t), b)
	under.gate.open()
	_, after := r.prog.Step(short(t), b)
	if meanwhile != first || after != first {
		t.Errorf("steps after %v give %v while copies are under way, %v afterwards", first, meanwhile, after)
	}
}

// A step that fails for another reason says so and names the failed copy, as
// all later ones do.
func TestFailedCopyThatNoTaskWaitsForIsNamed(t *testing.T) {
	devs, err := openDevices("cpu", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	later := errors.New("later")
	g := newGate() // or the stream could be renewed before the second copy
	devs = withFaults(devs, &fault{op: faults.CopyIn, n: 1, late: true, gate: g}, &fault{op: faults.CopyIn, n: 2, err: later, then: g.open})
	r, err := newRig(faultJob(), devs, "1f1b", residency.ManagerOptions{})
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.feed(0, r.batch())
	if err != nil {
		t.Fatal(err)
	}
	var task *executor.TaskError
	_, first := r.prog.Step(short(t), b)
	if !errors.As(first, &task) || !errors.Is(first, later) || !errors.Is(first, errBoom) {
		t.Errorf("got %v, want a task, what it met and the copy that failed", first)
	}
	for range 2 {
		if _, err := r.prog.Step(short(t), b); err != first {
			t.Errorf("a step after %v gives %v", first, err)
		}
	}
}

// The failure that comes first in order is reported, not the one that comes
// first in time, whoever is asked.
func TestFirstErrorWins(t *testing.T) {
	t.Parallel()
	for one := 1; one <= 6; one++ {
		for _, two := range []int{one + 1, one + 2, one + 5, 20} {
			firstError(t, one, two)
		}
	}
}

// firstError lets two launches fail, the first one late.
func firstError(t *testing.T, one, two int) {
	t.Helper()
	devs, err := openDevices("cpu", 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	first := &fault{op: faults.Launch, n: one, late: true, gate: newGate()}
	later := &fault{op: faults.Launch, n: two, late: true, err: errors.New("later")}
	r, err := newRig(faultJob(), withFaults(devs, first, later), "1f1b", residency.ManagerOptions{})
	if err != nil {
		t.Fatal(errors.Join(err, r.close()))
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	opened := time.AfterFunc(5*time.Millisecond, first.gate.open)
	defer opened.Stop()
	var ticket executor.Ticket
	for i := range 2 {
		b, ferr := r.feed(i, r.batch())
		if ferr != nil {
			t.Fatal(ferr)
		}
		if ticket, err = r.prog.Step(short(t), b); err != nil {
			break
		}
	}
	if err == nil {
		err = r.prog.Wait(short(t), ticket)
	}
	var task *executor.TaskError
	if !errors.As(err, &task) || !errors.Is(err, errBoom) || strings.TrimRight(task.Task, "0123456789") != first.where || task.Step != 1 {
		t.Errorf("launches %d (%s) and %d (%s) fail: got %v", one, first.where, two, later.where, err)
	}
}

// A program is told of the failure of another one's task by that task's name.
func TestFailureOfAnotherProgram(t *testing.T) {
	devs, err := openDevices("cpu", 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	f := &fault{op: faults.Launch, n: 8, late: true, gate: newGate()}
	r, err := newRig(faultJob(), withFaults(devs, f), "gpipe", residency.ManagerOptions{})
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	eval := loadEval(t, r)
	step(t, r, r.prog, 0, r.batch())
	step(t, r, eval, 0, 3)
	f.gate.open()
	var task *executor.TaskError
	if err := eval.Drain(short(t)); !errors.As(err, &task) || strings.TrimRight(task.Task, "0123456789") != f.where || !strings.Contains(f.where, ".B") || !errors.Is(err, errBoom) {
		t.Errorf("got %v, want the failure of %s", err, f.where)
	}
	if err := r.prog.Drain(short(t)); !errors.Is(err, errBoom) {
		t.Errorf("got %v of the program that failed", err)
	}
}

// gatedRig is a rig whose nth operation of a kind waits for a gate.
func gatedRig(t *testing.T, j job, op faults.Op, n int) (*rig, *gate) {
	t.Helper()
	devs, err := openDevices("cpu", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	g := newGate()
	r, err := newRig(j, withFaults(devs, &fault{op: op, n: n, gate: g, pass: true}), "1f1b", residency.ManagerOptions{})
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, g
}
