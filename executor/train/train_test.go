package train_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/internal/runtest"
)

func TestOptionsAreChecked(t *testing.T) {
	r := runtest.Open(t, runtest.Everything)
	for _, o := range []berth.TrainOptions{
		{},
		{Dir: "x", MaxSteps: -3},
		{Dir: "x", MaxTime: -1},
		{Dir: "x", Resume: true, Fresh: true},
		{Dir: "x", Resume: true, Init: "w"},
	} {
		if _, err := r.Train(t.Context(), o); !errors.Is(err, berth.ErrOptions) {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}

func TestStoppedByItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := runtest.Open(t, runtest.Everything)
	o := &berth.Observer{Step: func(berth.Step) { cancel() }}
	rep, err := r.Train(ctx, berth.TrainOptions{Dir: t.TempDir(), Observer: o})
	if !errors.Is(err, berth.ErrStopped) || !errors.Is(err, context.Canceled) || rep == nil {
		t.Errorf("got %v", err)
	}
}

func TestCancelStopsAfterTheStepAndSaves(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	o := berth.TrainOptions{Dir: dir, Observer: &berth.Observer{Step: func(s berth.Step) {
		if s.Step == 7 {
			cancel()
		}
	}}}
	rep, err := runtest.Open(t, runtest.Everything).Train(ctx, o)
	if !errors.Is(err, berth.ErrStopped) || rep == nil || rep.Steps != 7 {
		t.Fatalf("got %v and report %+v, want ErrStopped after 7 steps", err, rep)
	}
	got := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, Resume: true})
	want := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{})
	if got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("other weights after a stop")
	}
}

// What ends a run before its first step is no mistake in its data, and the run
// is stopped like any other.
func TestStoppedBeforeTheFirstStep(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "data.csv")
	if err := os.WriteFile(path, []byte("a,kind\n1,x\n2,y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := configs.Parse("test.yaml", []byte("data: {source: csv, path: "+path+", label: kind}\nmodel: {preset: mlp, hidden: [8]}\n"), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := berth.Open(over, c, berth.OpenOptions{}); !errors.Is(err, context.Canceled) || berth.IsUsage(err) {
		t.Errorf("while reading the data: %v", err)
	}
	dir := t.TempDir()
	want := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 3})
	late := berth.TrainOptions{Dir: dir, Resume: true, MaxTime: time.Hour, Began: time.Now().Add(-2 * time.Hour)}
	for name, try := range map[string]func() (*berth.Report, error){
		"context": func() (*berth.Report, error) {
			return runtest.Open(t, runtest.Everything).Train(over, berth.TrainOptions{Dir: dir, Resume: true})
		},
		"time": func() (*berth.Report, error) { return runtest.Open(t, runtest.Everything).Train(t.Context(), late) },
	} {
		rep, err := try()
		if rep != nil || !errors.Is(err, berth.ErrStopped) || !strings.Contains(err.Error(), "before the first step: ") {
			t.Errorf("%s: got %v, report %v", name, err, rep)
		}
	}
	limited, end := late.InTime(t.Context())
	defer end()
	if _, err := berth.Open(limited, c, berth.OpenOptions{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the time of 1h0m0s was over while the data was read") {
		t.Errorf("after its time: %v", err)
	}
	if got := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 3}); got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("the run is not what it was")
	}
}

func TestEarlyStoppingSurvivesAResume(t *testing.T) {
	set := []string{"early_stopping.metric=val_loss", "early_stopping.patience=2", "early_stopping.min_delta=100", "train.epochs=9"}
	want := runtest.Train(t, runtest.Open(t, runtest.Everything, set...), berth.TrainOptions{})
	if want.Epochs != 3 {
		t.Errorf("stopped after %d epochs, want 3: one that counts and two without improvement", want.Epochs)
	}
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything, set...), berth.TrainOptions{Dir: dir, MaxSteps: 25})
	for range 2 { // the second finds the run stopped
		got := runtest.Train(t, runtest.Open(t, runtest.Everything, set...), berth.TrainOptions{Dir: dir, Resume: true})
		if got.Steps != want.Steps || got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("resumed: %d steps, want %d, or other weights", got.Steps, want.Steps)
		}
	}
}

func TestLossThatIsNotFiniteNamesStepLayerAndCheckpoint(t *testing.T) {
	for _, devices := range []string{"devices=cpu:1", "devices=cpu:2"} {
		r := runtest.Open(t, runtest.Everything, devices, "optimizer.lr=1e30", "schedule=constant", "checkpoint.every=1")
		_, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
		if !errors.Is(err, berth.ErrNonFinite) {
			t.Fatalf("got %v, want ErrNonFinite", err)
		}
		for _, part := range []string{"step 2", "first in test.yaml:6: layer", "the last good checkpoint is of step 1"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q lacks %q", devices, err, part)
			}
		}
	}
}

// Under a tight limit, the variables have left the device when a loss is found to be
// not finite: the layer is found all the same. A device that hangs meanwhile ends the
// search.
func TestLayerThatIsNotFiniteIsFound(t *testing.T) {
	for _, c := range []struct{ memory, fault, part string }{
		{"129KiB", "", "first in shipped digits.yaml:6: layer 2"},
		{"1MiB", "cpu:0 copy-in 37 hang", "where it began could not be found"},
	} {
		cfg, err := configs.Load("digits", configs.Overlay{Set: []string{"train.microbatches=4", "optimizer.lr=1e30", "devices.timeout=200ms", "devices.memory=" + c.memory}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := berth.Open(t.Context(), cfg, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o := berth.TrainOptions{Dir: t.TempDir(), MaxSteps: 2}
		if c.fault != "" {
			f, err := fault.Parse(c.fault)
			if err != nil {
				t.Fatal(err)
			}
			o.Faults = []fault.Fault{f}
		}
		_, err = r.Train(t.Context(), o)
		if !errors.Is(err, berth.ErrNonFinite) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%+v: got %v, want ErrNonFinite", c, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAFreshRunThatCannotStartDeletesNothing(t *testing.T) {
	dir := t.TempDir()
	want := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 3})
	_, err := runtest.Open(t, runtest.Everything).Train(t.Context(), berth.TrainOptions{Dir: dir, Fresh: true, Init: "nosuch.safetensors"})
	if !errors.Is(err, berth.ErrInit) {
		t.Fatalf("got %v, want ErrInit", err)
	}
	if got := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 3}); got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("the earlier run is gone")
	}
}

// A fresh run holds the folder from the moment it has claimed it: nobody else
// gets at the checkpoints that it deletes, nor at those that it begins.
func TestAFreshRunLetsNobodyIn(t *testing.T) {
	dir := t.TempDir()
	path := rundir.CheckpointPath(dir)
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	for range 10 {
		var began atomic.Bool
		var all sync.WaitGroup
		all.Go(func() {
			for {
				if _, err := os.Stat(path + ".pid"); err == nil || began.Load() {
					break
				}
			}
			for !began.Load() {
				db, err := checkpoint.Open(path, checkpoint.OpenOptions{ReadOnly: true})
				if err == nil {
					if !began.Load() { // or the run may have ended meanwhile
						t.Error("another got the checkpoints of a run that begins anew")
					}
					err = db.Close()
				}
				if err != nil && !errors.Is(err, checkpoint.ErrHeld) && !errors.Is(err, checkpoint.ErrNotFound) {
					t.Error(err)
				}
			}
		})
		o := berth.TrainOptions{Dir: dir, Fresh: true, MaxSteps: 1, Observer: &berth.Observer{Started: func(berth.Start) { began.Store(true) }}}
		_, err := runtest.Open(t, runtest.Everything).Train(t.Context(), o)
		began.Store(true)
		all.Wait()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRunFolderThatHoldsACheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 3})
	if _, err := runtest.Open(t, runtest.Everything).Train(t.Context(), berth.TrainOptions{Dir: dir}); !errors.Is(err, berth.ErrHasCheckpoint) {
		t.Errorf("got %v, want ErrHasCheckpoint", err)
	}
	changed := runtest.Open(t, runtest.Everything, "optimizer.lr=0.5")
	if _, err := changed.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true}); !errors.Is(err, berth.ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	if rep := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, Fresh: true, MaxSteps: 2}); rep.Steps != 2 {
		t.Errorf("a fresh run took %d steps, want 2", rep.Steps)
	}
	if _, err := runtest.Open(t, runtest.Everything).Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Resume: true}); !errors.Is(err, berth.ErrNoCheckpoint) {
		t.Errorf("got %v, want ErrNoCheckpoint", err)
	}
}

// Two runs of one program cannot have one folder at once.
func TestTwoRunsInOneFolder(t *testing.T) {
	dir := t.TempDir()
	other := runtest.Open(t, runtest.Everything)
	var err error
	o := berth.TrainOptions{Dir: dir, MaxSteps: 1, Observer: &berth.Observer{Started: func(berth.Start) {
		_, err = other.Train(t.Context(), berth.TrainOptions{Dir: dir})
	}}}
	runtest.Train(t, runtest.Open(t, runtest.Everything), o)
	const want = ": wait until the run or DB that has it is closed, or train in another folder"
	if !errors.Is(err, checkpoint.ErrHeld) || !berth.IsUsage(err) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q at the end", err, want)
	}
}

// A resume never leaves less than a whole config.yaml: it writes another file
// and renames it.
func TestConfigIsReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	path, other := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "other.yaml")
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, changed := range []bool{false, true} {
		set := "checkpoint.keep.last=3"
		if changed {
			set = "checkpoint.keep.last=5"
		}
		runtest.Train(t, runtest.Open(t, runtest.Everything, set), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 2})
		now, err := os.ReadFile(path)
		old, err2 := os.ReadFile(other)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(old, before) || bytes.Equal(now, before) == changed {
			t.Errorf("changed %v: the file's earlier contents are now %d bytes of %d", changed, len(old), len(before))
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.berth-new")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// Early stopping is told after the line of its epoch, and once.
func TestEarlyStoppingIsToldAfterItsEpoch(t *testing.T) {
	set := []string{"early_stopping.metric=val_loss", "early_stopping.patience=1", "early_stopping.min_delta=100", "train.epochs=9"}
	var told []string
	runtest.Train(t, runtest.Open(t, runtest.Everything, set...), berth.TrainOptions{Observer: &berth.Observer{
		Boundary: func(e berth.Boundary) { told = append(told, fmt.Sprint("epoch ", e.Epoch)) },
		Note:     func(text string) { told = append(told, text) },
	}})
	want := []string{"epoch 0", "epoch 1", "early stopping: val_loss has not improved for 1 epochs"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// A run says that it has fewer stages than asked for.
func TestFewerStagesAreSaid(t *testing.T) {
	const text = "data: digits\nmodel: {preset: mlp, hidden: [8, 8]}\ntrain: {batch: 32}\n"
	for _, c := range []struct{ set, want string }{
		{"partition.stages=9", "asked for 9 stages, the model has 3 blocks: 3 stages are used"},
		{"devices=cpu:4", "there are 4 devices, the model has 3 blocks: 3 stages are used"},
		{"partition.stages=3", ""},
	} {
		said := ""
		run := runtest.Open(t, text, c.set)
		if got := strings.Join(run.Notes(), "; "); got != c.want {
			t.Errorf("%s: before training, %q, want %q", c.set, got, c.want)
		}
		runtest.Train(t, run, berth.TrainOptions{MaxSteps: 1, Observer: &berth.Observer{Note: func(s string) { said += s }}})
		if said != c.want {
			t.Errorf("%s: %q, want %q", c.set, said, c.want)
		}
	}
}

// A run folder's config finds its data from any working directory. The path is
// no part of the run's identity: both spellings resume, and so does a folder
// that has the path as it was given.
func TestPathsOfARunFolderAreAbsolute(t *testing.T) {
	home := t.TempDir()
	rows := "a,b,kind\n"
	for i := range 60 {
		rows += fmt.Sprintf("%d,%d,%s\n", i, i*7%13, []string{"low", "high"}[i/30])
	}
	if err := os.WriteFile(filepath.Join(home, "data.csv"), []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	const text = "data: {source: csv, path: data.csv, label: kind}\nmodel: {preset: mlp, hidden: [8]}\ntrain: {epochs: 2, batch: 8}\n"
	dir := filepath.Join(home, "run")
	t.Chdir(home)
	runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{Dir: dir, MaxSteps: 2})
	config := filepath.Join(dir, "config.yaml")
	was, err := os.ReadFile(config)
	if err != nil || !bytes.Contains(was, []byte("path: "+filepath.Join(home, "data.csv"))) {
		t.Fatalf("%v:\n%s", err, was)
	}
	resume := func(text string, steps int) {
		t.Helper()
		said := ""
		o := berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: steps, Observer: &berth.Observer{Note: func(s string) { said += s + "\n" }}}
		if rep := runtest.Train(t, runtest.Open(t, text), o); rep.Steps != steps || strings.Contains(said, "although") {
			t.Errorf("%d steps: %s", rep.Steps, said)
		}
	}
	t.Chdir(t.TempDir())
	resume(string(was), 3)
	c, err := configs.Load(config, configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Eval(t.Context())
	if err := errors.Join(err, m.Close()); err != nil {
		t.Error(err)
	}
	t.Chdir(home)
	resume(text, 4)
	before := bytes.Replace(was, []byte(filepath.Join(home, "data.csv")), []byte("data.csv"), 1)
	if err := os.WriteFile(config, before, 0o644); err != nil {
		t.Fatal(err)
	}
	resume(string(before), 5)
	if now, err := os.ReadFile(config); err != nil || !bytes.Equal(now, was) {
		t.Errorf("%v, the config is now:\n%s", err, now)
	}
}
