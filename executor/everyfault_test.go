package executor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
)

// drawFault draws an operation of one of some devices, and how it goes wrong.
func drawFault(t *rapid.T, devices int) faults.Fault {
	f := faults.Fault{
		Device: device.ID(fmt.Sprintf("cpu:%d", rapid.IntRange(0, devices-1).Draw(t, "device"))),
		Op:     rapid.SampledFrom([]faults.Op{faults.Launch, faults.CopyIn, faults.CopyOut, faults.Peer, faults.Repeat, faults.Alloc, faults.Compile}).Draw(t, "op"),
		N:      rapid.IntRange(1, 40).Draw(t, "n"),
		Kind:   rapid.SampledFrom([]faults.Kind{faults.Fail, faults.Lost, faults.OOM}).Draw(t, "kind"),
	}
	if rapid.IntRange(0, 9).Draw(t, "hangs") == 0 {
		f.Kind = faults.Hang
	}
	if f.Kind == faults.Hang && (f.Op == faults.Alloc || f.Op == faults.Compile) {
		f.Kind = faults.Fail
	}
	return f
}

// names reports whether an error is of one of the faults: it has the fault's
// text, or, of a hang, the device and the stream.
func names(err error, list []faults.Fault) bool {
	for _, f := range list {
		var hang *executor.HangError
		switch {
		case f.Kind == faults.Hang && errors.As(err, &hang) && hang.Device == f.Device:
			return true
		case f.Kind != faults.Hang && errors.Is(err, faults.ErrInjected) && strings.Contains(err.Error(), f.String()):
			return true
		}
	}
	return false
}

// Whatever goes wrong, and wherever the tensors are, a run ends with the weights
// of one without faults, or with an error that names the fault. One or two copies that
// fail are no error. The run ends in time, all steps after a failure fail alike, and nothing
// is left.
func TestFaultsOfEveryKind(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		w := rapid.SampledFrom(ways()).Draw(t, "way")
		j.recompute, j.memory, j.last = w.recompute, w.memory, 0
		j.alone, j.beside = rapid.Bool().Draw(t, "op by op"), rapid.Bool().Draw(t, "compiled beside")
		list := []faults.Fault{drawFault(t, w.devices)}
		if rapid.Bool().Draw(t, "two") {
			list = append(list, drawFault(t, w.devices))
		}
		bytes := roomy(w.devices)
		if rapid.Bool().Draw(t, "little memory") {
			bytes = least(t, j, w.devices, w.threads, w.schedule)
		}
		devs, err := openSized(bytes, w.threads)
		if err != nil {
			t.Fatal(err)
		}
		if devs, err = faults.Wrap(devs, list); err != nil {
			t.Fatal(err)
		}
		survives(t, j, devs, w.schedule, list)
	})
}

// Each operation of each kind goes wrong in turn, in every way. Without TEST_ALL,
// only some do, and none hangs.
func TestEveryFault(t *testing.T) {
	testall.Long(t)
	t.Parallel()
	j := mlpJob(2)
	for name, bytes := range map[string][]int64{"roomy": roomy(2), "tight": least(t, j, 2, 1, "1f1b")} {
		for _, dev := range []device.ID{"cpu:0", "cpu:1"} {
			t.Run(fmt.Sprint(name, "/", dev), func(t *testing.T) {
				t.Parallel()
				for _, op := range []faults.Op{faults.Launch, faults.CopyIn, faults.CopyOut, faults.Peer, faults.Alloc, faults.Compile} {
					everyFault(t, j, bytes, faults.Fault{Device: dev, Op: op})
				}
			})
		}
	}
}

// everyFault tries an operation of a device in every way, at every place. Of hangs,
// which take time, it tries every third.
func everyFault(t *testing.T, j job, bytes []int64, f faults.Fault) {
	t.Helper()
	kinds, stride := []faults.Kind{faults.Fail, faults.Lost, faults.OOM}, 17
	if os.Getenv("TEST_ALL") != "" {
		if stride = 1; f.Op != faults.Alloc && f.Op != faults.Compile {
			kinds = append(kinds, faults.Hang)
		}
	}
	for i, kind := range kinds {
		f.Kind = kind
		step := stride
		if kind == faults.Hang {
			step = 3
		}
		for f.N = 1 + i*step/len(kinds); ; f.N += step {
			devs, err := openSized(bytes, 1)
			if err != nil {
				t.Fatal(err)
			}
			list := []faults.Fault{f}
			if devs, err = faults.Wrap(devs, list); err != nil {
				t.Fatal(err)
			}
			survives(t, j, devs, "1f1b", list)
			if len(faults.Missed(devs)) > 0 {
				break
			}
		}
	}
}

// survives checks that a run with faults ends with the weights of one without, or
// with an error that names one of them.
func survives(t rapid.TB, j job, devs []device.Device, schedule string, list []faults.Fault) {
	t.Helper()
	got, err := suffer(t, j, devs, schedule, list)
	if err != nil && harmless(list) {
		t.Fatalf("%v: %v, though a copy is repeated", list, err)
	}
	if err != nil {
		if !names(err, list) {
			t.Fatalf("%v, want one of %v", err, list)
		}
		return
	}
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(want, got); d != "" {
		t.Fatalf("%v: %s", list, d)
	}
}

// harmless reports whether faults are of copies that are repeated.
func harmless(list []faults.Fault) bool {
	return len(list) <= 2 && !slices.ContainsFunc(list, func(f faults.Fault) bool {
		copies := []faults.Op{faults.CopyIn, faults.CopyOut, faults.Peer, faults.Repeat}
		return !slices.Contains(copies, f.Op) || f.Kind != faults.Fail && f.Kind != faults.OOM
	})
}

// suffer trains an epoch on devices with faults. It returns the variables, or the
// first error.
func suffer(t rapid.TB, j job, devs []device.Device, schedule string, list []faults.Fault) (vars map[string][]byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	hanging := slices.DeleteFunc(slices.Clone(devs), func(d device.Device) bool {
		return !slices.ContainsFunc(list, func(f faults.Fault) bool { return f.Device == d.ID() && f.Kind == faults.Hang })
	})
	// On a busy machine, the others would count as hanging, too.
	defer executor.WatchDevices(hanging, executor.WatchOptions{Timeout: 250 * time.Millisecond})()
	r, err := newRig(j, devs, schedule, residency.ManagerOptions{})
	defer func() {
		if cerr := r.close(); cerr != nil && (err == nil || !errors.Is(cerr, faults.ErrInjected) && !errors.Is(cerr, device.ErrLost)) {
			t.Fatalf("after %v: closing: %v", err, cerr)
		}
	}()
	if err != nil {
		return nil, err
	}
	if err := r.run(ctx); err != nil {
		if !refused(err, list) {
			r.failAlike(t, ctx, err)
		}
		return nil, err
	}
	return r.vars(ctx)
}

// refused reports whether an error is that of a call which can be repeated: memory
// was refused once.
func refused(err error, list []faults.Fault) bool {
	once := slices.DeleteFunc(slices.Clone(list), func(f faults.Fault) bool { return f.Op != faults.Alloc || f.Kind == faults.Lost })
	return names(err, once)
}

// failAlike checks that steps after a failure fail with it.
func (r *rig) failAlike(t rapid.TB, ctx context.Context, first error) {
	for range 3 {
		b, err := r.feed(0, r.batch())
		if err != nil {
			return // the device of batches is lost
		}
		if _, err := r.prog.Step(ctx, b); err == nil || err.Error() != first.Error() {
			t.Fatalf("after %v: %v", first, err)
		}
	}
}
