package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
)

// Trainings at once on shared devices end with the weights that they have alone,
// and each report is about its own training.
func TestTrainingsShareDevices(t *testing.T) {
	const steps = 4
	type alone struct {
		config *configs.Config
		report *berth.Report
	}
	var runs []alone
	peak := int64(0)
	for _, x := range []struct{ text, set string }{
		{"digits", "train.epochs=1"}, {"digits-cnn", "train.epochs=1"}, {runtest.Tied(t), "train.microbatches=2"},
	} {
		c := runtest.Parsed(t, x.text, x.set, "devices.use=cpu:2")
		r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rep := runtest.Train(t, r, berth.TrainOptions{MaxSteps: steps, AssertResident: true})
		for _, f := range r.Plan().Memory {
			peak = max(peak, f.Peak)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, alone{c, rep})
	}
	for _, percent := range []int64{150, 120, 100, 99} {
		d := runtest.OpenDevices(t, "cpu:2", peak*percent/100)
		var wg sync.WaitGroup
		for i, x := range runs {
			c := *x.config
			if percent == 99 { // plans for less memory have floors so low that all run at once
				c.Devices.Memory = configs.Memory{Percent: 90}
			}
			r := runtest.OpenOn(t, d, &c)
			wg.Go(func() {
				got, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), MaxSteps: steps, AssertResident: true})
				if err != nil {
					t.Errorf("%d%%: run %d: %v", percent, i, err)
					return
				}
				want := x.report
				if got.WeightsSHA256 != want.WeightsSHA256 {
					t.Errorf("%d%%: run %d: weights %s, alone %s", percent, i, got.WeightsSHA256, want.WeightsSHA256)
				}
				if a, b := got.Ledger.SteadyState.BatchBytesPerStep, want.Ledger.SteadyState.BatchBytesPerStep; a != b {
					t.Errorf("%d%%: run %d: %d bytes in a batch, alone %d", percent, i, a, b)
				}
				for k := range got.Devices {
					if a, b := got.Devices[k].PeakBytes, want.Devices[k].PeakBytes; a > b || a < b/4 {
						t.Errorf("%d%%: run %d: %d bytes at most on %s, alone %d", percent, i, a, got.Devices[k].ID, b)
					}
				}
			})
		}
		wg.Wait()
	}
}

// A training that fails, here since its loss is not finite, says why, and leaves
// the other one right.
func TestFailureOnSharedDevices(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu", 64<<20)
	good, bad := runtest.Parsed(t, "digits", "train.epochs=2"), runtest.Parsed(t, "digits-cnn", "optimizer.lr=1e30", "train.epochs=2")
	alone, err := berth.Open(t.Context(), good, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rep := runtest.Train(t, alone, berth.TrainOptions{})
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	first, second := runtest.OpenOn(t, d, good), runtest.OpenOn(t, d, bad)
	var wg sync.WaitGroup
	dir := t.TempDir()
	wg.Go(func() {
		got, err := first.Train(t.Context(), berth.TrainOptions{Dir: dir})
		if err != nil {
			t.Error(err)
		} else if got.WeightsSHA256 != rep.WeightsSHA256 {
			t.Errorf("weights %s, alone %s", got.WeightsSHA256, rep.WeightsSHA256)
		}
	})
	wg.Go(func() {
		_, err := second.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
		if !errors.Is(err, berth.ErrNonFinite) || !strings.Contains(err.Error(), "first in") {
			t.Errorf("the failing run: %v", err)
		}
	})
	wg.Wait()
	best, err := berth.OpenTrained(t.Context(), good, berth.Weights{Dir: dir}, berth.TrainedOptions{Devices: d})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := best.Eval(t.Context()); err != nil || *e.Accuracy != *rep.Final.ValAccuracy {
		t.Errorf("accuracy %v, in training %v; %v", e.Accuracy, rep.Final.ValAccuracy, err)
	}
	if err := best.Close(); err != nil {
		t.Error(err)
	}
}

// A run that finds no memory waits, and its context ends that. A plan that never
// fits is refused, and a memory limit in the config lowers the floor.
func TestWaitingForSharedDevices(t *testing.T) {
	testall.Long(t)
	c := runtest.Parsed(t, "digits", "train.epochs=1")
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := r.Plan().Memory[0]
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	d := runtest.OpenDevices(t, "cpu", f.Floor+f.Floor/2)
	first, second, trained := runtest.OpenOn(t, d, c), runtest.OpenOn(t, d, c), berth.Weights{Dir: t.TempDir()}
	if _, err := first.Train(t.Context(), berth.TrainOptions{Dir: trained.Dir, MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
	var notes []string
	ctx, enough := context.WithTimeout(t.Context(), time.Minute)
	defer enough()
	began := &berth.Observer{
		Started: func(berth.Start) { t.Error("the second run did not wait") },
		Note: func(text string) {
			if notes = append(notes, text); strings.HasPrefix(text, "waiting until") {
				time.AfterFunc(50*time.Millisecond, enough)
			}
		},
	}
	o := berth.Observer{Started: func(berth.Start) {
		dir := filepath.Join(t.TempDir(), "new")
		if _, err := second.Train(ctx, berth.TrainOptions{Dir: dir, Observer: began}); !errors.Is(err, berth.ErrStopped) || !errors.Is(err, context.Canceled) {
			t.Errorf("the run without memory: %v", err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it leaves its folder: %v", err)
		}
		if !slices.ContainsFunc(notes, func(text string) bool { return strings.HasPrefix(text, "waiting until") }) {
			t.Errorf("it said %q", notes)
		}
		short, end := context.WithTimeout(t.Context(), runtest.Slowdown*500*time.Millisecond) // it waits long before, also on a busy machine
		defer end()
		if _, err := second.Eval(short, trained); err == nil || !strings.HasPrefix(err.Error(), "digits (2) waits for device memory") {
			t.Errorf("an evaluation without memory: %v", err)
		}
		if err := d.Close(); !errors.Is(err, berth.ErrInUse) {
			t.Errorf("closing devices in use: %v", err)
		}
	}}
	if _, err := first.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Observer: &o}); err != nil {
		t.Error(err)
	}
	if _, err := berth.Open(t.Context(), runtest.Parsed(t, "digits-cnn"), berth.OpenOptions{Devices: runtest.OpenDevices(t, "cpu", 64<<10)}); !errors.Is(err, partition.ErrMemory) {
		t.Errorf("a plan beyond the devices: %v", err)
	}
	small := runtest.OpenOn(t, d, runtest.Parsed(t, "digits", "train.epochs=1", fmt.Sprintf("devices.memory=%dB", f.Floor*9/10)))
	if got := small.Plan().Memory[0].Floor; got >= f.Floor {
		t.Errorf("planned with less memory, the floor is %d, before %d", got, f.Floor)
	}
	if _, err := berth.OpenDevices(runtest.Parsed(t, "digits", "devices.memory=50%").Devices, berth.DevicesOptions{}); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("a percentage for shared devices: %v", err)
	}
}

// A run on devices of a literal can be used once it is trained: with the run, with
// shared devices, and with devices of its own.
func TestDevicesOfALiteral(t *testing.T) {
	d, err := berth.OpenDevices(configs.Devices{Use: "cpu"}, berth.DevicesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, w := runtest.Parsed(t, "digits"), berth.Weights{Dir: t.TempDir()}
	r := runtest.OpenOn(t, d, c)
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: w.Dir, MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Eval(t.Context(), w); err != nil {
		t.Errorf("the run: %v", err)
	}
	kept := runtest.Parsed(t, filepath.Join(w.Dir, "config.yaml"))
	if got := kept.Devices; got.Timeout != 5*time.Minute || got.OnLoss != configs.OnLossStop {
		t.Errorf("the run keeps %+v", got)
	}
	kept.Devices = configs.Devices{}
	for where, o := range map[string]berth.TrainedOptions{
		"shared devices": {Devices: d}, "devices of its own": {},
	} {
		m, err := berth.OpenTrained(t.Context(), kept, w, o)
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if _, err := m.Eval(t.Context()); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := berth.OpenDevices(configs.Devices{OnLoss: "wait"}, berth.DevicesOptions{}); !errors.Is(err, configs.ErrInvalid) || !berth.IsUsage(err) {
		t.Errorf("an unknown policy: %v", err)
	}
}

// The run folder and the checkpoints of a run on shared devices keep its own section devices, with which it goes
// on elsewhere.
func TestSharedRunKeepsItsDevices(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu:2", 64<<20)
	c, dir := runtest.Parsed(t, "digits", "devices.use=cpu:1", "devices.threads=1", "devices.memory=90%", "devices.timeout=1h"), t.TempDir()
	if _, err := runtest.OpenOn(t, d, c).Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
	text, _, err := rundir.SavedConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := configs.Parse("saved", text, configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	for where, kept := range map[string]*configs.Config{"the run folder": runtest.Parsed(t, filepath.Join(dir, "config.yaml")), "the checkpoint": saved} {
		if got, want := kept.Devices, c.Devices; got.Use != want.Use || got.Threads != want.Threads || got.Memory != want.Memory || got.Timeout != want.Timeout {
			t.Errorf("%s keeps %+v", where, got)
		}
	}
}

// A run on shared devices has one call at a time, and is named after its config
// where it waits.
func TestOneCallOfASharedRun(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu", 64<<20)
	c, w := runtest.Parsed(t, "digits", "train.epochs=1"), berth.Weights{Dir: t.TempDir()}
	r, other := runtest.OpenOn(t, d, c), runtest.OpenOn(t, d, c)
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: w.Dir, MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
	within := 0
	o := berth.Observer{Started: func(berth.Start) {
		within++
		again := berth.TrainOptions{Dir: t.TempDir()}
		_, trained := r.Train(t.Context(), again)
		_, scored := r.Eval(t.Context(), w)
		_, predicted := r.Predict(t.Context(), w, "", func(berth.Prediction) error { return nil })
		for _, err := range []error{trained, scored, predicted} {
			if !errors.Is(err, berth.ErrInUse) || !berth.IsUsage(err) {
				t.Errorf("a second call: %v", err)
			}
		}
		if list, err := os.ReadDir(again.Dir); err != nil || len(list) > 0 {
			t.Errorf("the second training left %v; %v", list, err)
		}
		if _, err := other.Eval(t.Context(), w); err != nil {
			t.Errorf("another run: %v", err)
		}
	}}
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), MaxSteps: 1, Observer: &o}); err != nil || within != 1 {
		t.Errorf("%d calls within: %v", within, err)
	}
	if _, err := r.Eval(t.Context(), w); err != nil {
		t.Errorf("once the training has ended: %v", err)
	}
}

// Runs of closed devices are closed.
func TestClosedSharedDevices(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu", 64<<20)
	r, dir := runtest.OpenOn(t, d, runtest.Parsed(t, "digits")), t.TempDir()
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 1}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()}); !errors.Is(err, berth.ErrClosed) {
		t.Errorf("training on closed devices: %v", err)
	}
	c := runtest.Parsed(t, "digits", "devices.memory=160KiB")
	_, err := berth.Open(t.Context(), c, berth.OpenOptions{Devices: d})
	_, again := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Devices: d})
	for _, err := range []error{err, again} {
		if err == nil || !errors.Is(err, berth.ErrClosed) || err.Error() != "these Devices are closed already" || !berth.IsUsage(err) {
			t.Errorf("opening a run on closed devices: %v", err)
		}
	}
}

// The host memory that a run takes for saves is free for the next one, on devices
// that have a bound on it.
func TestSharedHostMemoryIsGivenBack(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu", 300<<10, "devices.host_memory=2MiB")
	r := runtest.OpenOn(t, d, runtest.Parsed(t, "digits", "train.epochs=1", "checkpoint.staging=1MiB"))
	for i := range 8 {
		if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), MaxSteps: 1}); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
	}
}

// outcome is the end of a training.
type outcome struct {
	dir    string
	report *berth.Report
	err    error
}

// trainTogether trains runs on the devices at once.
func trainTogether(t *testing.T, d *berth.Devices, steps int, list ...*configs.Config) []outcome {
	t.Helper()
	out, runs := make([]outcome, len(list)), make([]*berth.Run, len(list))
	for i, c := range list {
		runs[i], out[i].dir = runtest.OpenOn(t, d, c), t.TempDir()
	}
	var wg sync.WaitGroup
	for i, r := range runs {
		wg.Go(func() {
			out[i].report, out[i].err = r.Train(t.Context(), berth.TrainOptions{Dir: out[i].dir, MaxSteps: steps})
		})
	}
	wg.Wait()
	for _, r := range runs {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	return out
}

// A device that is lost is lost for all who use it: they go on without it, and others
// as if nothing had happened.
func TestLossOfASharedDevice(t *testing.T) {
	const steps = 12
	set := []string{"train.epochs=1", "checkpoint.every=5", "devices.on_device_loss=replan"}
	two := runtest.Parsed(t, "digits", set...)
	one := runtest.Parsed(t, "digits", append(set, "partition.stages=1", "seed=2")...)
	want := map[*configs.Config]string{}
	for _, c := range []*configs.Config{two, one} {
		r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want[c] = runtest.Train(t, r, berth.TrainOptions{MaxSteps: steps}).WeightsSHA256
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	for i, text := range []string{"cpu:1 launch 14 lost", "cpu:1 launch 14 fail", "cpu:1 launch 14 hang", "cpu:1 copy-in 9 lost", "cpu:1 peer 9 lost", "cpu:1 alloc 40 lost", "cpu:1 compile 4 lost"} {
		if i >= 2 && !testall.Wanted() {
			break
		}
		t.Run(text, func(t *testing.T) {
			f, err := fault.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			o := configs.Devices{Use: "cpu:2"}
			if f.Kind == fault.Hang { // or a machine that is busy would count as hanging
				o.Timeout = 2 * time.Second
			}
			d, err := berth.OpenDevices(o, berth.DevicesOptions{Faults: []fault.Fault{f}})
			if err != nil {
				t.Fatal(err)
			}
			list := []*configs.Config{two, one, two}
			losses := 0
			for i, x := range trainTogether(t, d, steps, list...) {
				if x.err != nil || x.report.WeightsSHA256 != want[list[i]] {
					t.Errorf("run %d: %v", i, x.err)
					continue
				}
				losses += len(x.report.DeviceLosses)
				if list[i] == one && len(x.report.DeviceLosses) > 0 {
					t.Errorf("run %d, which does not use the device, lost %+v", i, x.report.DeviceLosses)
				}
			}
			if losses == 0 || losses > 1 && f.Kind == fault.Fail {
				t.Errorf("%d losses", losses)
			}
			after := runtest.OpenOn(t, d, two)
			if n := len(after.Plan().Stages); (n == 1) != (f.Kind != fault.Fail) {
				t.Errorf("afterwards a plan has %d stages", n)
			}
			if rep, err := after.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), MaxSteps: steps}); err != nil || rep.WeightsSHA256 != want[two] {
				t.Errorf("afterwards: %v", err)
			}
			if err := errors.Join(after.Close(), d.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A run that waits for memory of a device that is lost goes on with the others.
func TestWaitingForALostDevice(t *testing.T) {
	const steps = 6
	c := runtest.Parsed(t, "digits", "train.epochs=1", "devices.on_device_loss=replan")
	alone, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want, floor := runtest.Train(t, alone, berth.TrainOptions{MaxSteps: steps}).WeightsSHA256, alone.Plan().Memory[0].Floor
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	f := fault.Fault{Device: "cpu:1", Op: fault.Launch, N: 4, Kind: fault.Lost}
	d, err := berth.OpenDevices(configs.Devices{Use: "cpu:2", Memory: configs.Memory{Bytes: floor * 5 / 4}}, berth.DevicesOptions{Faults: []fault.Fault{f}})
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range trainTogether(t, d, steps, c, c, c) {
		if x.err != nil || x.report.WeightsSHA256 != want || len(x.report.DeviceLosses) != 1 {
			t.Errorf("run %d: %v, %+v", i, x.err, x.report)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// After an operation went wrong, a run on shared devices has ended well, or is saved
// if every variable is whole at one step: resumed, it has the weights of a run where
// nothing went wrong.
func TestSavingAfterALossOnSharedDevices(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=1", "train.microbatches=2")
	alone, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const steps = 9
	want, floor := runtest.Train(t, alone, berth.TrainOptions{MaxSteps: steps}).WeightsSHA256, alone.Plan().Memory[0].Floor
	failed, saved, tried := 0, 0, 0
	for _, op := range []fault.Op{fault.Launch, fault.CopyIn, fault.CopyOut, fault.Alloc} {
		for n := 1; n < 120; n += 8 {
			f := fault.Fault{Device: "cpu:0", Op: op, N: n, Kind: []fault.Kind{fault.Fail, fault.OOM, fault.Lost}[n%3]}
			if tried++; tried%19 != 0 && !testall.Wanted() {
				continue
			}
			d, err := berth.OpenDevices(configs.Devices{Use: "cpu", Memory: configs.Memory{Bytes: 2*floor + 4096}}, berth.DevicesOptions{Faults: []fault.Fault{f}})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range trainTogether(t, d, steps, c, c) {
				var lost *berth.DeviceError
				switch {
				case x.err == nil && x.report.WeightsSHA256 != want:
					t.Errorf("%v: weights %s", f, x.report.WeightsSHA256)
				case x.err == nil:
					continue
				case !errors.As(x.err, &lost):
					t.Errorf("%v: %v", f, x.err)
				}
				if failed++; lost == nil || lost.Saved == 0 {
					continue
				}
				saved++
				if rep, err := alone.Train(t.Context(), berth.TrainOptions{Dir: x.dir, Resume: true, MaxSteps: steps}); err != nil || rep.WeightsSHA256 != want {
					t.Errorf("%v: resumed: %v", f, err)
				}
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := alone.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%d runs failed, and %d of them were saved", failed, saved)
	if saved == 0 && testall.Wanted() {
		t.Error("none was saved")
	}
}

// On shared devices, too, a run has the room in the spill file before its first step.
func TestRoomForSpillsOfSharedDevices(t *testing.T) {
	d, err := berth.OpenDevices(configs.Devices{Use: "cpu", HostMemory: 1 << 20, SpillDir: t.TempDir()}, berth.DevicesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := runtest.Parsed(t, "digits", "train.epochs=1", "model.hidden=[512,256]", "devices.memory=3MiB")
	r := runtest.OpenOn(t, d, c)
	rep := runtest.Train(t, r, berth.TrainOptions{MaxSteps: 1})
	if h := rep.HostMemory; h == nil || h.FileBytes < r.Plan().Memory[0].Peak-1<<20 {
		t.Errorf("host memory: %+v", h)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The limit of shared devices is not named as a place of a run's config.
func TestLimitOfSharedDevices(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu:1", 64<<10)
	_, err := berth.Open(t.Context(), runtest.Parsed(t, "digits"), berth.OpenOptions{Devices: d})
	if want := "at least 129KiB (devices.memory)"; !errors.Is(err, partition.ErrMemory) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q at the end", err, want)
	}
	_, err = berth.Open(t.Context(), runtest.Parsed(t, "digits", "devices.memory=64KiB"), berth.OpenOptions{Devices: d})
	if want := "(now --set devices.memory=64KiB)"; !errors.Is(err, partition.ErrMemory) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q at the end", err, want)
	}
}

// A run may use some of the shared devices. What it does not name, it neither plans with nor
// keeps memory on.
func TestSomeOfTheSharedDevices(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu:3", 8<<20)
	c := runtest.Parsed(t, "digits", "train.epochs=1")
	alone, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	want := runtest.Train(t, alone, berth.TrainOptions{Dir: t.TempDir()})
	for _, use := range [][]device.ID{{"cpu:2"}, {"cpu:2", "cpu:1"}} {
		r, err := berth.Open(t.Context(), c, berth.OpenOptions{Devices: d, Use: use})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		got := runtest.Train(t, r, berth.TrainOptions{Dir: dir})
		var on []device.ID
		for _, x := range got.Devices {
			on = append(on, x.ID)
		}
		slices.Sort(on)
		slices.Sort(use)
		if got.WeightsSHA256 != want.WeightsSHA256 || got.Stages != len(use) || !slices.Equal(on, use) {
			t.Errorf("%v: %d stages on %v, weights %s, alone %s", use, got.Stages, on, got.WeightsSHA256, want.WeightsSHA256)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Devices: d, Use: use[:1]})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Eval(t.Context()); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, o := range []berth.OpenOptions{{Devices: d, Use: []device.ID{"cpu:3"}}, {Devices: d, Use: []device.ID{"cpu:1", "cpu:0", "cpu:1"}}, {Devices: d, Use: []device.ID{}}, {Use: []device.ID{"cpu:0"}}} {
		if _, err := berth.Open(t.Context(), c, o); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "Use") {
			t.Errorf("%v: %v", o.Use, err)
		}
	}
}

// A run on some of the shared devices has the plan and the report of one alone on as many, but for
// the devices' names. It goes on on others.
func TestOtherSharedDevices(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=1", "devices.use=cpu:2", "devices.memory=8MiB")
	alone, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	want := runtest.Train(t, alone, berth.TrainOptions{Dir: t.TempDir()})
	d, dir := runtest.OpenDevices(t, "cpu:4", 8<<20), t.TempDir()
	for i, use := range [][]device.ID{{"cpu:0", "cpu:2"}, {"cpu:1", "cpu:3"}} {
		r, err := berth.Open(t.Context(), c, berth.OpenOptions{Devices: d, Use: use})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := r.Plan().Memory, alone.Plan().Memory; len(got) != 2 || got[0].Peak != want[0].Peak || got[1].Floor != want[1].Floor {
			t.Errorf("%v: planned memory %+v, alone %+v", use, got, want)
		}
		o := berth.TrainOptions{Dir: dir, Resume: i > 0}
		if i == 0 {
			o.MaxSteps = 11
		}
		got := runtest.Train(t, r, o)
		for k, x := range got.Devices {
			if x.ID != use[k] || x.PeakBytes != want.Devices[k].PeakBytes || x.FloorBytes != want.Devices[k].FloorBytes {
				t.Errorf("%v: %+v, alone %+v", use, x, want.Devices[k])
			}
		}
		if i > 0 && got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("resumed on %v: weights %s, alone %s", use, got.WeightsSHA256, want.WeightsSHA256)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A lost device cannot be named any more.
func TestUseOfALostDevice(t *testing.T) {
	d, err := berth.OpenDevices(configs.Devices{Use: "cpu:3"}, berth.DevicesOptions{Faults: []fault.Fault{{Device: "cpu:1", Op: fault.Launch, N: 2, Kind: fault.Lost}}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := runtest.Parsed(t, "digits", "train.epochs=1")
	open := func(use ...device.ID) (*berth.Run, error) {
		return berth.Open(t.Context(), c, berth.OpenOptions{Devices: d, Use: use})
	}
	r, err := open("cpu:1")
	if err != nil {
		t.Fatal(err)
	}
	var lost *berth.DeviceError
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()}); !errors.As(err, &lost) {
		t.Errorf("training on the device: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := open("cpu:2", "cpu:1"); !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), "Use names cpu:1") {
		t.Errorf("naming it: %v", err)
	}
	if r, err = open("cpu:2"); err != nil {
		t.Fatal(err)
	}
	runtest.Train(t, r, berth.TrainOptions{MaxSteps: 1})
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestZeroDevices uses devices that OpenDevices did not make.
func TestZeroDevices(t *testing.T) {
	var d berth.Devices
	c := runtest.Parsed(t, "digits")
	if _, err := berth.Open(t.Context(), c, berth.OpenOptions{Devices: &d}); !errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "OpenDevices") {
		t.Errorf("Open: %v", err)
	}
	if _, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: t.TempDir()}, berth.TrainedOptions{Devices: &d}); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("OpenTrained: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Runs of equal data on shared devices read one copy of it, and end with the weights that they have alone. It is
// given back when the last of them is closed; a run that is not opened keeps nothing.
func TestRunsShareData(t *testing.T) {
	table := filepath.Join(t.TempDir(), "x.csv")
	rows := "a,b,c,label\n"
	for i := range 300 {
		rows += fmt.Sprintf("%d,w%d,%d,%s\n", i%17, i%5, i, []string{"yes", "no"}[i/3%2])
	}
	if err := os.WriteFile(table, []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	text := "data: {source: csv, path: " + table + "}\nmodel: {preset: mlp, hidden: [8]}\ntrain: {epochs: 2}\n"
	one := runtest.Parsed(t, text)
	two := runtest.Parsed(t, text, "train.batch=50", "model.hidden=[16]") // the data is the same
	var want []string
	for _, c := range []*configs.Config{one, two} {
		r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, runtest.Train(t, r, berth.TrainOptions{}).WeightsSHA256)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d := runtest.OpenDevices(t, "cpu", 64<<20)
	var runs []*berth.Run
	var all sync.WaitGroup
	for i := range 4 {
		r, err := berth.Open(t.Context(), []*configs.Config{one, two}[i%2], berth.OpenOptions{Devices: d})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
		all.Go(func() {
			got, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
			if err != nil || got.WeightsSHA256 != want[i%2] {
				t.Errorf("run %d: %v, %v; alone %s", i, got, err, want[i%2])
			}
		})
	}
	all.Wait()
	if runs[0].Data.Val != runs[3].Data.Val || d.Data().Bytes() != runs[0].Data.Bytes() {
		t.Errorf("%d bytes of data are open; one copy takes %d", d.Data().Bytes(), runs[0].Data.Bytes())
	}
	if _, err := berth.Open(t.Context(), runtest.Parsed(t, text, "model.hidden=[9999]", "devices.memory=64KiB"), berth.OpenOptions{Devices: d}); err == nil {
		t.Error("the model fits into 64 KiB")
	}
	for i, r := range runs {
		for range 2 {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		if open := d.Data().Bytes() > 0; open != (i < len(runs)-1) {
			t.Errorf("after %d of %d runs are closed, data is open: %t", i+1, len(runs), open)
		}
	}
}
