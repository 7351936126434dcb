package executor_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
)

// A step that fails while it is queued is undone; taken again, nothing shows.
func TestFaultsWhileQueueingAreUndone(t *testing.T) {
	t.Parallel()
	j := faultJob()
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	tight := least(t, j, 2, 1, "1f1b")
	for _, op := range []faults.Op{faults.Alloc, faults.Launch, faults.CopyIn, faults.Peer, faults.CopyOut} {
		bytes := roomy(2)
		if op == faults.CopyOut {
			bytes = tight // so that there are spills
		}
		undone, ended := 0, 0
		sweep(t, j, bytes, op, false, func(f *fault, out outcome) {
			var task *executor.TaskError
			if !errors.As(out.err, &task) {
				t.Fatalf("%s %d: %v names no task", op, f.n, out.err)
			}
			if out.ended {
				ended++
				if !strings.Contains(task.Task, ".U") {
					t.Errorf("%s %d: %v ended the run, though nothing was updated", op, f.n, out.err)
				}
				return
			}
			undone++
			if d := differ(want, out.vars); d != "" {
				t.Errorf("%s %d: after %v: %s", op, f.n, out.err, d)
			}
		})
		t.Logf("%s: %d undone, %d ended the run", op, undone, ended)
		if undone == 0 {
			t.Errorf("%s: no step was undone", op)
		}
	}
}

// A context that ends while a step is queued never leaves half an update.
func TestCancelAtAnyTask(t *testing.T) {
	t.Parallel()
	j := faultJob()
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	undone, every := 0, testall.Or(3, 1)
	for n := 1; ; n += every {
		devs, err := openDevices("cpu", 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		f := &fault{op: faults.Launch, n: n, pass: true, then: cancel}
		r, err := newRig(j, withFaults(devs, f), "1f1b", residency.ManagerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i, samples := range j.epoch() {
			b, err := r.feed(i, samples)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.prog.Step(ctx, b)
			if errors.Is(err, context.Canceled) {
				undone++
				_, err = r.prog.Step(short(t), b)
			}
			if err != nil {
				t.Errorf("cancelled at launch %d (%s): %v", n, f.where, err)
			}
			if ctx.Err() != nil {
				ctx = short(t)
			}
		}
		cancel()
		got, err := r.vars(short(t))
		if err := errors.Join(err, r.close()); err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatalf("cancelled at launch %d (%s): %s", n, f.where, d)
		}
		if !f.fired() {
			break
		}
	}
	if undone < 20/every {
		t.Errorf("only %d steps were cancelled", undone)
	}
}

// When a step that failed returns, nothing reads its batch any more.
func TestFailedStepLetsGoOfItsBatch(t *testing.T) {
	waited := 0
	for n := 1; n <= 16; n++ {
		devs, err := openDevices("cpu", 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		copied := &fault{op: faults.CopyIn, n: n, pass: true, gate: newGate()}
		r, err := newRig(faultJob(), withFaults(devs, copied, &fault{op: faults.CopyIn, n: n + 1}), "1f1b", residency.ManagerOptions{})
		if err != nil {
			t.Fatal(errors.Join(err, r.close()))
		}
		b, err := r.feed(0, r.batch())
		if err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(2*time.Millisecond, copied.gate.open)
		if _, err := r.prog.Step(short(t), b); !errors.Is(err, errBoom) {
			t.Errorf("got %v", err)
		}
		if copied.where == "batch" {
			waited++
			if !copied.gate.isOpen() {
				t.Errorf("copy-in %d of the batch is still under way", n)
			}
		}
		if timer.Stop() {
			copied.gate.open()
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}
	if waited == 0 {
		t.Error("no part of a batch was being copied")
	}
}

// A step that is cancelled while it waits for memory is undone. Here a lease of
// another stream takes it up.
func TestCancelWhileQueueing(t *testing.T) {
	j := gptJob(4)
	bytes := least(t, j, 1, 1, "1f1b")
	devs, err := openSized(bytes, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRig(j, devs, "1f1b", residency.ManagerOptions{})
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	leave := r.guest(t, bytes[0]-device.MemoryUnit)
	var leaving sync.WaitGroup
	defer leaving.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // the step waits long before
	defer cancel()
	cancelled := 0
	for i, n := range j.epoch() {
		b, err := r.feed(i, n)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.prog.Step(ctx, b)
		if err != nil && ctx.Err() != nil {
			cancelled++
			var task *executor.TaskError
			if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &task) {
				t.Errorf("got %v, want a task whose time was over", err)
			}
			if _, err := r.prog.Step(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v for a context that had ended before", err)
			}
			leaving.Go(func() {
				time.Sleep(20 * time.Millisecond) // for the step to wait again
				leave()
			})
			ctx = short(t)
			_, err = r.prog.Step(ctx, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(want, got); d != "" || cancelled != 1 {
		t.Errorf("%d steps were cancelled, want 1; %s", cancelled, d)
	}
}

// guest leases so many bytes on the first device, until it is told to leave.
func (r *rig) guest(t *testing.T, bytes int64) (leave func()) {
	t.Helper()
	m := r.rt.Residency
	x, err := m.Declare(residency.Key{Net: "guest", Value: "x"}, shape.F32(int(bytes/4)), device.Input)
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.devs[0].NewStream("guest")
	if err != nil {
		t.Fatal(err)
	}
	var l residency.Lease
	if err := m.Acquire(short(t), s, []residency.Need{{Tensor: x, Mode: residency.Write}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(m.Abandon(&l), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A step whose loss is not finite leaves every variable as it was, though
// updates run in the same segment: running statistics, the counter and the
// rings too.
func TestFailedLossChangesNothing(t *testing.T) {
	for name, j := range map[string]job{"mlp": mlpJob(1), "cnn": cnnJob(1), "cnn of 2": cnnJob(2)} {
		for devices := 1; devices <= 3; devices++ {
			r := mustRig(t, j, "cpu", devices, "1f1b", residency.ManagerOptions{})
			step(t, r, r.prog, 0, j.batch())
			before, err := r.vars(short(t))
			if err != nil {
				t.Fatal(err)
			}
			b, err := r.feed(1, j.batch())
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range r.prog.Inputs() {
				if v.Meta.DType == shape.Float32 {
					shape.View[float32](b.Fields[i].Bytes())[2] = float32(math.NaN())
				}
			}
			if _, err = r.prog.Step(short(t), b); err == nil {
				err = r.prog.Drain(short(t))
			}
			if !errors.Is(err, device.ErrNonFinite) {
				t.Fatalf("%s on %d devices: %v", name, devices, err)
			}
			for _, v := range r.prog.Graph().Vars {
				err := r.rt.Residency.Salvage(short(t), r.prog.Var(v.Name), func(now []byte) error {
					if !bytes.Equal(now, before[v.Name]) {
						t.Errorf("%s on %d devices: %s has changed", name, devices, v.Name)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}
	}
}
