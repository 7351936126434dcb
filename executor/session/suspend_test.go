package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// soon is a context for what should not take long.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runtest.Slowdown*30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// alone trains a config on devices of its own.
func alone(t *testing.T, c *configs.Config, o berth.TrainOptions) (rep *berth.Report, floor, peak int64) {
	t.Helper()
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rep = runtest.Train(t, r, o)
	for _, f := range r.Plan().Memory {
		floor, peak = max(floor, f.Floor), max(peak, f.Peak)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return rep, floor, peak
}

// training is a run that trains in a goroutine of its own.
type training struct {
	run    *berth.Run
	steps  chan int // one for each step, from its observer
	ended  chan error
	report *berth.Report
}

// train starts to train a run, which suspends itself with a step. o has no observer.
func train(ctx context.Context, r *berth.Run, step int, o berth.TrainOptions) *training {
	x := &training{run: r, steps: make(chan int, 1<<16), ended: make(chan error, 1)}
	asked := false
	o.Observer = &berth.Observer{Step: func(s berth.Step) {
		if s.Step == step && !asked { // it may take the step again, after the loss of a device
			asked = true
			ask(r)
		}
		x.steps <- s.Step
	}}
	go func() {
		var err error
		x.report, err = r.Train(ctx, o)
		x.ended <- err
	}()
	return x
}

// ask suspends a run, and does not wait until it stands still: an observer may do that.
func ask(r *berth.Run) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.Suspend(ended) // it says that the run does not stand still yet
}

// still counts the steps that come within a short time.
func (x *training) still() int {
	for len(x.steps) > 0 {
		<-x.steps
	}
	time.Sleep(20 * time.Millisecond)
	return len(x.steps)
}

// A training that is suspended takes no step, gives its memory to one that needs all of it, and ends with the
// weights that it has alone. What it has on the device leaves and comes back.
func TestSuspendedTraining(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=2")
	want, floor, peak := alone(t, c, berth.TrainOptions{})
	d := runtest.OpenDevices(t, "cpu", max(floor, peak)+floor/2)
	first, second := runtest.OpenOn(t, d, c), runtest.OpenOn(t, d, c)
	x := train(t.Context(), first, 5, berth.TrainOptions{Dir: t.TempDir(), AssertResident: true})
	for <-x.steps < 5 {
	}
	for range 2 {
		if err := first.Suspend(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	if n := x.still(); n > 0 {
		t.Errorf("%d steps while it is suspended", n)
	}
	y := runtest.Train(t, second, berth.TrainOptions{})
	if y.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("the other one has other weights")
	}
	if err := first.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := <-x.ended; err != nil {
		t.Fatal(err)
	}
	if x.report.WeightsSHA256 != want.WeightsSHA256 || x.report.SuspendedS <= 0.02 {
		t.Errorf("weights %s, alone %s; suspended for %v s", x.report.WeightsSHA256, want.WeightsSHA256, x.report.SuspendedS)
	}
	if x.report.Ledger.SpillBytes == 0 {
		t.Error("nothing has left the device")
	}
	if p95 := x.report.Throughput.StepMSP95 / 1e3; p95 > x.report.SuspendedS {
		t.Errorf("a step took %v s, suspended for %v s", p95, x.report.SuspendedS)
	}
}

// An evaluation at a boundary, or of the test part, is suspended between two batches. It goes on; or, where
// its run is to end meanwhile, all is saved, and the resumed run takes it.
func TestSuspendedEvaluation(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=2", "train.batch=90", "train.microbatches=30", "data.split={val: 0.2, test: 0.2}")
	want, _, _ := alone(t, c, berth.TrainOptions{})
	stop := errors.New("enough")
	for _, x := range []struct {
		name  string
		at    func(o *berth.Observer, last int, suspend func()) // when it is suspended
		ended bool
		limit time.Duration
	}{
		{"at a boundary", atStep(1), false, 0},
		{"at the last boundary", atStep(2), false, 0},
		{"of the test part", atBoundary(2), false, 0},
		{"of the test part, in its time", atBoundary(2), false, time.Hour},
		{"at a boundary, and ended", atStep(1), true, 0},
		{"at the last boundary, and ended", atStep(2), true, 0},
		{"of the test part, and ended", atBoundary(2), true, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			d, dir := runtest.OpenDevices(t, "cpu", 64<<20), t.TempDir()
			r := runtest.OpenOn(t, d, c)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			asked := make(chan struct{})
			var o berth.Observer
			x.at(&o, r.StepsPerEpoch(), func() {
				ask(r)
				close(asked)
			})
			go func() {
				<-asked
				if err := r.Suspend(soon(t)); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Millisecond) // it really waits
				if x.ended {
					cancel(stop)
				} else if err := r.Continue(); err != nil {
					t.Error(err)
				}
			}()
			rep, err := r.Train(ctx, berth.TrainOptions{Dir: dir, Observer: &o, MaxTime: x.limit})
			if x.ended {
				if !errors.Is(err, berth.ErrStopped) || !errors.Is(err, stop) {
					t.Fatalf("ended meanwhile: %v", err)
				}
				if err := r.Continue(); err != nil {
					t.Fatal(err)
				}
				rep, err = r.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
			}
			if err != nil {
				t.Fatal(err)
			}
			if rep.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(rep.Losses, want.Losses) || *rep.Final.ValLoss != *want.Final.ValLoss || rep.Test.Loss != want.Test.Loss {
				t.Errorf("weights %s, alone %s; test %+v, alone %+v", rep.WeightsSHA256, want.WeightsSHA256, rep.Test, want.Test)
			}
			if !x.ended && rep.SuspendedS == 0 {
				t.Error("it was not suspended")
			}
		})
	}
}

// A save that is under way ends before a run is suspended, also within an evaluation: its memory is free then.
func TestSaveBeforeASuspendedEvaluation(t *testing.T) {
	c := runtest.Parsed(t, "digits", "model.hidden=[1024,1024]", "train.batch=90", "train.boundary=4", "train.steps=8", "checkpoint.every=3")
	r := runtest.OpenOn(t, runtest.OpenDevices(t, "cpu", 256<<20), c)
	asked, saved, stands := make(chan struct{}), make(chan int, 10), make(chan struct{})
	o := berth.Observer{
		Saved: func(s berth.Saved) { saved <- s.Step },
		Step: func(s berth.Step) {
			if s.Step == 4 { // the evaluation follows, and the save of step 3 is under way
				ask(r)
				close(asked)
			}
		},
	}
	go func() {
		defer close(stands)
		<-asked
		if err := r.Suspend(soon(t)); err != nil {
			t.Error(err)
		}
		select {
		case step := <-saved:
			if step != 3 {
				t.Errorf("step %d was saved first", step)
			}
		default:
			t.Error("it stands still, and the save has not ended")
		}
		if err := r.Continue(); err != nil {
			t.Error(err)
		}
	}()
	if rep, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Observer: &o}); err != nil || rep.SuspendedS == 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	<-stands
}

// atStep suspends a run with the last step of an epoch, and so in the evaluation after it.
func atStep(epoch int) func(o *berth.Observer, steps int, suspend func()) {
	return func(o *berth.Observer, steps int, suspend func()) {
		o.Step = func(s berth.Step) {
			if s.Step == epoch*steps {
				suspend()
			}
		}
	}
}

// atBoundary suspends a run after the evaluation of an epoch.
func atBoundary(epoch int) func(o *berth.Observer, steps int, suspend func()) {
	return func(o *berth.Observer, steps int, suspend func()) {
		o.Boundary = func(b berth.Boundary) {
			if b.Step == epoch*steps {
				suspend()
			}
		}
	}
}

// While a training is suspended, it saves as asked, and ends with its context.
func TestEndOfASuspendedTraining(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=2")
	want, _, _ := alone(t, c, berth.TrainOptions{})
	r, dir := runtest.OpenOn(t, runtest.OpenDevices(t, "cpu", 64<<20), c), t.TempDir()
	if err := r.Suspend(soon(t)); err != nil { // before it begins
		t.Fatal(err)
	}
	stop, save := errors.New("enough"), make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	x := train(ctx, r, 3, berth.TrainOptions{Dir: dir, SaveNow: save})
	if n := x.still(); n > 0 {
		t.Errorf("%d steps while it is suspended", n)
	}
	if err := r.Continue(); err != nil {
		t.Fatal(err)
	}
	for <-x.steps < 3 {
	}
	save <- struct{}{}
	save <- struct{}{} // it is saved already
	close(save)
	if saved, err := os.Stat(rundir.CheckpointPath(dir)); err != nil || saved.Size() == 0 {
		t.Errorf("it has not saved: %v", err)
	}
	cancel(stop)
	if err := <-x.ended; !errors.Is(err, berth.ErrStopped) || !errors.Is(err, stop) || x.report == nil || x.report.Steps != 3 || x.report.Checkpoints.Count != 1 {
		t.Fatalf("%v, %+v", err, x.report)
	}
	if err := r.Continue(); err != nil {
		t.Fatal(err)
	}
	rep, err := r.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
	if err != nil || rep.WeightsSHA256 != want.WeightsSHA256 {
		t.Errorf("resumed: %v", err)
	}
	if err := errors.Join(r.Suspend(soon(t)), r.Close()); err != nil { // after the end
		t.Error(err)
	}
}

// Finish saves, whoever has the run stand still meanwhile, and though its context has ended.
func TestFinishWhileItIsSuspended(t *testing.T) {
	r := runtest.OpenOn(t, runtest.OpenDevices(t, "cpu", 64<<20), runtest.Parsed(t, "digits", "train.batch=1024", "model.hidden=[512]"))
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("enough"))
	for i := range 5 {
		x, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		suspended := make(chan error)
		go func() { suspended <- r.Suspend(soon(t)) }()
		time.Sleep(time.Duration(i) * time.Millisecond) // it waits for the step
		rep, err := x.Finish(ended)
		if err != nil || rep.Steps != 1 || rep.Checkpoints.Count == 0 {
			t.Fatalf("%+v, %v", rep, err)
		}
		if err := errors.Join(<-suspended, r.Continue(), x.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// The time of a training counts while it is suspended.
func TestTimeOfASuspendedTraining(t *testing.T) {
	testall.Long(t)
	c := runtest.Parsed(t, "digits", "train.epochs=2")
	r := runtest.OpenOn(t, runtest.OpenDevices(t, "cpu", 64<<20), c)
	x := train(t.Context(), r, 3, berth.TrainOptions{Dir: t.TempDir(), MaxTime: runtest.Slowdown * 2 * time.Second})
	if err := <-x.ended; !errors.Is(err, berth.ErrStopped) || x.report == nil || x.report.Steps != 3 || x.report.SuspendedS == 0 {
		t.Errorf("%v, %+v", err, x.report)
	}
}

// A training that waits for memory can be suspended, too: it leaves the line. One that is suspended goes on in
// the line.
func TestSuspendedInTheLine(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=1")
	want, floor, _ := alone(t, c, berth.TrainOptions{})
	d := runtest.OpenDevices(t, "cpu", floor+floor/2)
	var runs []*berth.Run
	for range 3 {
		runs = append(runs, runtest.OpenOn(t, d, c))
	}
	first, err := runs[0].Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	waits := make(chan struct{}, 4)
	ended := make(chan error, 2)
	var reports [3]*berth.Report
	for i, r := range runs[1:] {
		go func() {
			var err error
			o := berth.Observer{Note: func(text string) {
				if strings.HasPrefix(text, "waiting until") {
					waits <- struct{}{}
				}
			}}
			reports[i+1], err = r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Observer: &o})
			ended <- err
		}()
		<-waits
		if err := r.Suspend(soon(t)); err != nil { // it waits, and does so no more
			t.Fatal(err)
		}
	}
	for first.More() {
		if err := first.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(runs[0].Suspend(soon(t)), runs[2].Continue()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || reports[2].WeightsSHA256 != want.WeightsSHA256 {
		t.Errorf("the one that goes on: %v", err)
	}
	if reports[0], err = first.Finish(t.Context()); err != nil || reports[0].WeightsSHA256 != want.WeightsSHA256 { // without memory
		t.Errorf("the one that is suspended after its last step: %v", err)
	}
	if err := errors.Join(first.Close(), runs[1].Continue(), <-ended); err != nil || reports[1].WeightsSHA256 != want.WeightsSHA256 {
		t.Errorf("the last one: %v", err)
	}
}

// A training that is taken step by step is suspended between two calls, and within one. Meanwhile, methods that
// compute nothing work, and the others wait.
func TestSuspendedOwnLoop(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=1", "train.batch=90", "train.microbatches=30", "schedule.warmup=0", "checkpoint.every=3")
	want, _, _ := alone(t, c, berth.TrainOptions{})
	d := runtest.OpenDevices(t, "cpu", 64<<20)
	r := runtest.OpenOn(t, d, c)
	var tr *berth.Training
	saved := 0
	o := &berth.Observer{Saved: func(s berth.Saved) {
		saved++
		tr.More() // within the call that tells of the save
	}}
	tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir(), AssertResident: true, Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	for tr.More() {
		at := tr.Steps()
		if at%3 == 0 { // also before the first step
			if err := r.Suspend(soon(t)); err != nil {
				t.Fatal(err)
			}
			w, err := tr.Fetch(soon(t), "layers.0.bias")
			if err != nil {
				t.Fatal(err)
			}
			for name, err := range map[string]error{"Step": tr.Step(short()), "Replace": tr.Replace(short(), "layers.0.bias", w)} {
				if !errors.Is(err, context.DeadlineExceeded) || tr.Steps() != at {
					t.Errorf("%s of a suspended training at step %d: %v", name, tr.Steps(), err)
				}
			}
			if at == 6 {
				if err := tr.Save(soon(t)); err != nil {
					t.Error(err)
				}
			}
			if err := r.Continue(); err != nil {
				t.Fatal(err)
			}
			if err := tr.Replace(soon(t), "layers.0.bias", w); err != nil {
				t.Error(err)
			}
		}
		if err := tr.Step(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := tr.Finish(t.Context())
	if err != nil || rep.WeightsSHA256 != want.WeightsSHA256 || *rep.Final.ValLoss != *want.Final.ValLoss || saved != rep.Checkpoints.Count {
		t.Errorf("told of %d saves, %v", saved, err)
	}
	if err := errors.Join(r.Suspend(soon(t)), tr.Close(), r.Suspend(soon(t)), r.Continue()); err != nil {
		t.Error(err)
	}
}

// Where the context of a step ends while the evaluation after it is suspended, the next call takes that.
func TestEvaluationOfTheNextStep(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=2", "train.batch=90", "train.microbatches=30")
	want, _, _ := alone(t, c, berth.TrainOptions{})
	d := runtest.OpenDevices(t, "cpu", 64<<20)
	r := runtest.OpenOn(t, d, c)
	var o berth.Observer
	boundaries, asked := 0, make(chan struct{}, 2)
	o.Boundary = func(berth.Boundary) { boundaries++ }
	for _, at := range []func(*berth.Observer, int, func()){atStep(1), atStep(2)} {
		was := o.Step
		at(&o, r.StepsPerEpoch(), func() {
			ask(r)
			asked <- struct{}{}
		})
		if now := o.Step; was != nil {
			o.Step = func(s berth.Step) { was(s); now(s) }
		}
	}
	tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Observer: &o})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	enough := errors.New("enough")
	for tr.More() {
		ctx, cancel := context.WithCancelCause(t.Context())
		at, last := tr.Steps()+1, tr.Steps()+1 == r.StepsPerEpoch() || tr.Steps()+1 == r.TotalSteps()
		if last {
			go func() {
				<-asked
				if err := r.Suspend(soon(t)); err != nil {
					t.Error(err)
				}
				cancel(enough)
			}()
		}
		err := tr.Step(ctx)
		cancel(nil)
		if !last {
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !errors.Is(err, enough) || tr.Steps() != at || boundaries != (at-1)/r.StepsPerEpoch() {
			t.Fatalf("step %d of %d, %d boundaries: %v", tr.Steps(), at, boundaries, err)
		}
		if err := r.Continue(); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := tr.Finish(t.Context())
	if err != nil || boundaries != 2 || rep.WeightsSHA256 != want.WeightsSHA256 || *rep.Final.ValLoss != *want.Final.ValLoss {
		t.Errorf("%d boundaries, %v", boundaries, err)
	}
}

// An evaluation of its own is suspended, too, and has the same result; so is one on several groups of devices.
func TestSuspendedEval(t *testing.T) {
	c := runtest.Parsed(t, "digits", "train.epochs=1", "train.batch=8", "partition.stages=1")
	d, w := runtest.OpenDevices(t, "cpu:2", 64<<20), berth.Weights{Dir: t.TempDir()}
	r := runtest.OpenOn(t, d, c)
	if _, err := r.Train(t.Context(), berth.TrainOptions{Dir: w.Dir, MaxSteps: 5}); err != nil {
		t.Fatal(err)
	}
	want, err := r.Eval(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		done := make(chan error, 1)
		go func() {
			got, err := r.Eval(t.Context(), w)
			if err == nil && got.Loss != want.Loss {
				err = fmt.Errorf("loss %v, before %v", got.Loss, want.Loss)
			}
			done <- err
		}()
		time.Sleep(time.Duration(i) * time.Millisecond)
		if err := errors.Join(r.Suspend(soon(t)), r.Continue(), <-done); err != nil {
			t.Error(err)
		}
	}
	if err := r.Suspend(soon(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.Eval(ctx, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an evaluation of a suspended run: %v", err)
	}
}

// A device that is lost while a training is suspended is lost for that, too: it goes on without it.
func TestDeviceLostWhileSuspended(t *testing.T) {
	const steps = 12
	c := runtest.Parsed(t, "digits", "train.epochs=1", "devices.on_device_loss=replan", "checkpoint.every=5")
	want, _, _ := alone(t, c, berth.TrainOptions{MaxSteps: steps})
	d, err := berth.OpenDevices(configs.Devices{Use: "cpu:2"}, berth.DevicesOptions{Faults: []fault.Fault{{Device: "cpu:1", Op: fault.Launch, N: 40, Kind: fault.Lost}}})
	if err != nil {
		t.Fatal(err)
	}
	first, second := runtest.OpenOn(t, d, c), runtest.OpenOn(t, d, c)
	x := train(t.Context(), first, 3, berth.TrainOptions{Dir: t.TempDir(), MaxSteps: steps})
	for <-x.steps < 3 {
	}
	if err := first.Suspend(soon(t)); err != nil {
		t.Fatal(err)
	}
	if y := runtest.Train(t, second, berth.TrainOptions{MaxSteps: 30}); len(y.DeviceLosses) != 1 {
		t.Fatalf("the other one lost %+v", y.DeviceLosses)
	}
	if err := errors.Join(first.Continue(), <-x.ended); err != nil {
		t.Fatal(err)
	}
	if len(x.report.DeviceLosses) != 1 || x.report.WeightsSHA256 != want.WeightsSHA256 {
		t.Errorf("%+v, weights %s, alone %s", x.report.DeviceLosses, x.report.WeightsSHA256, want.WeightsSHA256)
	}
	if err := errors.Join(first.Close(), second.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}
