package executor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
)

// An operation that does not end fails the step that needs it, with an error that
// names it, and so do all calls from then on. Closing ends too.
func TestWatchGivesUpDevicesThatHang(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	const timeout = 500 * time.Millisecond // long compared with an operation, also on a busy machine
	for _, c := range []struct {
		op   faults.Op
		n    int
		what string
	}{
		{faults.Launch, 1, `s1.`}, {faults.Launch, 7, `s1.`},
		{faults.CopyIn, 1, `copy-in on cpu:1 has not ended after 500ms`}, {faults.Peer, 2, `peer on cpu:1 has not ended after 500ms`},
	} {
		devs, err := openDevices("cpu", 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		if devs, err = faults.Wrap(devs, []faults.Fault{{Device: "cpu:1", Op: c.op, N: c.n, Kind: faults.Hang}}); err != nil {
			t.Fatal(err)
		}
		r, err := newRig(faultJob(), devs, "1f1b", residency.ManagerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.rt.Watch(executor.WatchOptions{}) // it no longer watches
		r.rt.Watch(executor.WatchOptions{Timeout: timeout})
		start := time.Now()
		first := r.run(short(t))
		var task *executor.TaskError
		var hang *executor.HangError
		if !errors.As(first, &task) || !errors.As(first, &hang) || !errors.Is(first, device.ErrLost) || hang.Device != "cpu:1" || !strings.Contains(first.Error(), c.what) {
			t.Errorf("%s %d hangs: %v", c.op, c.n, first)
		}
		if d := time.Since(start); d < timeout {
			t.Errorf("%s %d counts as hanging after %v", c.op, c.n, d)
		}
		if s := devs[1].Stats(); s.WrittenOff == 0 {
			t.Errorf("%s %d hangs, and nothing is written off", c.op, c.n)
		}
		for range 2 {
			b, err := r.feed(0, r.batch())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.prog.Step(short(t), b); err != first {
				t.Errorf("%s %d hangs: %v, then %v", c.op, c.n, first, err)
			}
		}
		if err := r.close(); err != nil {
			t.Errorf("%s %d hangs: closing: %v", c.op, c.n, err)
		}
	}
}

// A device that works, however long in all, is not given up.
func TestWatchLeavesDevicesThatWork(t *testing.T) {
	t.Parallel()
	r := mustRig(t, faultJob(), "cpu", 2, "1f1b", residency.ManagerOptions{})
	r.rt.Watch(executor.WatchOptions{Timeout: 10 * time.Second})
	if err := r.run(short(t)); err != nil {
		t.Fatal(err)
	}
}

// Once the run is to end, an operation that hangs ends it soon, whatever the
// timeout; one that works is left alone.
func TestWatchIsImpatientAfterStop(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	const patience = 500 * time.Millisecond // long compared with an operation, also on a busy machine
	for _, timeout := range []time.Duration{0, time.Hour} {
		for _, hangs := range []bool{false, true} {
			devs, err := openDevices("cpu", 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			if hangs {
				if devs, err = faults.Wrap(devs, []faults.Fault{{Device: "cpu:0", Op: faults.Launch, N: 7, Kind: faults.Hang}}); err != nil {
					t.Fatal(err)
				}
			}
			r, err := newRig(faultJob(), devs, "1f1b", residency.ManagerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			r.rt.Watch(executor.WatchOptions{Timeout: timeout, Stop: stop, Patience: func() time.Duration { return patience }})
			timer := time.AfterFunc(10*time.Millisecond, func() { close(stop) })
			var hang *executor.HangError
			err = r.run(short(t))
			if hangs != errors.As(err, &hang) || hangs && (!hang.Stopping || hang.Timeout != patience) {
				t.Errorf("timeout %v, hangs %v: %v", timeout, hangs, err)
			}
			timer.Stop()
			if err := r.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Every wait ends where a device hangs, also if nobody asked the runtime to watch.
func TestDefaultTimeout(t *testing.T) {
	devs, err := openDevices("cpu", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if devs, err = faults.Wrap(devs, []faults.Fault{{Device: "cpu:0", Op: faults.Launch, N: 2, Kind: faults.Hang}}); err != nil {
		t.Fatal(err)
	}
	undo := executor.ShortenDefaultTimeout(50 * time.Millisecond)
	r, err := newRig(faultJob(), devs, "1f1b", residency.ManagerOptions{})
	undo()
	if err != nil {
		t.Fatal(err)
	}
	var hang *executor.HangError
	if err := r.run(t.Context()); !errors.As(err, &hang) {
		t.Errorf("a hanging launch: %v", err)
	}
	if err := r.close(); err != nil && !errors.Is(err, device.ErrLost) {
		t.Error(err)
	}
}
