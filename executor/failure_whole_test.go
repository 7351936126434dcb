package executor_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
)

// steps are the variables before the first step of an epoch, and after each.
func steps(t *testing.T, j job) (after []map[string][]byte) {
	t.Helper()
	r := mustRig(t, j, "cpu", 1, "1f1b", residency.ManagerOptions{})
	for i, n := range j.epoch() {
		vars, err := r.vars(short(t))
		if err != nil {
			t.Fatal(err)
		}
		after = append(after, vars)
		step(t, r, r.prog, i, n)
	}
	vars, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	return append(after, vars)
}

// After a launch that failed, Whole names the step whose variables there are, or
// says that they are of different steps.
func TestWhole(t *testing.T) {
	t.Parallel()
	j := faultJob()
	want := steps(t, j)
	whole, half := 0, 0
	for _, dev := range []device.ID{"cpu:0", "cpu:1"} {
		for n := 1; n <= 40; n += 2 {
			devs, err := openDevices("cpu", 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			f := faults.Fault{Device: dev, Op: faults.Launch, N: n, Kind: faults.Fail}
			if devs, err = faults.Wrap(devs, []faults.Fault{f}); err != nil {
				t.Fatal(err)
			}
			r, err := newRigWith(j, devs, "1f1b", executor.RuntimeOptions{Tenant: residency.TenantOptions{Peaks: roomy(2)}})
			if err == nil {
				err = r.run(short(t))
			}
			last, notWhole := r.prog.Whole()
			switch {
			case notWhole == nil:
				whole++
				r.holds(t, want[last])
			case errors.Is(notWhole, executor.ErrHalf) && err != nil:
				half++
			default:
				t.Errorf("%v: %v, after %v", f, notWhole, err)
			}
			if err := r.close(); err != nil {
				t.Error(err)
			}
		}
	}
	if whole < 10 || half < 3 {
		t.Errorf("%d runs are whole, %d are not", whole, half)
	}
}

// A step that could not be queued whole is not forgotten, also where the launch
// before failed: a part of its update may have ended.
func TestWholeAfterAnAbort(t *testing.T) {
	t.Parallel()
	j := faultJob()
	want := steps(t, j)
	half := 0
	for n := 1; n <= 40; n += 2 {
		devs, err := openDevices("cpu", 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		devs = withFaults(devs, &fault{op: faults.Launch, n: n, late: true}, &fault{op: faults.Launch, n: n + 1})
		r, err := newRigWith(j, devs, "1f1b", executor.RuntimeOptions{Tenant: residency.TenantOptions{Peaks: roomy(2)}})
		if err == nil {
			err = r.run(short(t))
		}
		if !errors.Is(err, errBoom) {
			t.Errorf("launches %d and %d fail: %v", n, n+1, err)
		}
		if last, err := r.prog.Whole(); err == nil {
			r.holds(t, want[last])
		} else if half++; !errors.Is(err, executor.ErrHalf) {
			t.Errorf("launches %d and %d fail: %v", n, n+1, err)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}
	if half == 0 {
		t.Error("all were whole")
	}
}

// Where tensors leave devices, too, Whole names the step whose variables there are.
// Only a device that is lost can lose a variable.
func TestWholeWithoutRoom(t *testing.T) {
	t.Parallel()
	j := faultJob()
	want := steps(t, j)
	for devices := 1; devices <= 2; devices++ {
		bytes := least(t, j, devices, 1, "1f1b")
		for _, op := range []faults.Op{faults.Launch, faults.CopyIn, faults.CopyOut, faults.Peer, faults.Alloc} {
			t.Run(fmt.Sprint(devices, " ", op), func(t *testing.T) {
				t.Parallel()
				wholeAfter(t, j, bytes, op, want)
			})
		}
	}
}

// wholeAfter lets operations of a kind go wrong, each in a run of its own.
func wholeAfter(t *testing.T, j job, bytes []int64, op faults.Op, want []map[string][]byte) {
	every := 19
	if testall.Wanted() {
		every = 1
	}
	whole, half, lost := 0, 0, 0
	for n := 1; ; n += every {
		f := faults.Fault{Device: "cpu:0", Op: op, N: n, Kind: []faults.Kind{faults.Fail, faults.OOM, faults.Lost}[n%3]}
		devs, err := openSized(bytes, 1)
		if err != nil {
			t.Fatal(err)
		}
		if devs, err = faults.Wrap(devs, []faults.Fault{f}); err != nil {
			t.Fatal(err)
		}
		r, err := newRig(j, devs, "1f1b", residency.ManagerOptions{})
		if err == nil {
			err = r.run(short(t))
		}
		missed := len(faults.Missed(devs)) > 0
		last, notWhole := r.prog.Whole()
		switch {
		case notWhole == nil:
			whole++
			if f.Kind != faults.Lost && !missed { // then they can be read
				r.holds(t, want[last])
			}
		case errors.Is(notWhole, executor.ErrHalf) && err != nil:
			half++
		case errors.Is(notWhole, residency.ErrLost) && errors.Is(notWhole, faults.ErrInjected) && f.Kind == faults.Lost: // other copies are taken again
			lost++
		default:
			t.Errorf("%v: %v, after %v", f, notWhole, err)
		}
		if err := r.close(); err != nil && !errors.Is(err, faults.ErrInjected) {
			t.Error(err)
		}
		if missed {
			break
		}
	}
	t.Logf("%d runs are whole, %d are between two steps, and %d have lost a variable", whole, half, lost)
}

// holds checks the variables as far as they can be read.
func (r *rig) holds(t *testing.T, want map[string][]byte) {
	t.Helper()
	for _, v := range r.prog.Graph().Vars {
		err := r.rt.Residency.Salvage(short(t), r.prog.Var(v.Name), func(b []byte) error {
			if !bytes.Equal(b, want[v.Name]) {
				t.Errorf("%s is % x, want % x", v.Name, b, want[v.Name])
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
