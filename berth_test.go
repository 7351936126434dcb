package berth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every kind of state a run has: dropout, batchnorm statistics, momentum, a
// learning rate that moves, a norm that joins all gradients, and a last batch
// that is smaller and does not divide into microbatches.
const everything = `
data: {source: digits, split: 0.18}
model:
  layers:
    - {type: conv2d, name: conv, channels: 4, kernel: 3, padding: same}
    - {type: batchnorm, name: norm}
    - relu
    - {type: max_pool, kernel: 2}
    - flatten
    - {type: dense, name: fc1, units: 24, activation: tanh}
    - {type: dropout, rate: 0.3}
    - {type: residual, name: skip, layers: [{type: layernorm}, {type: dense, units: 24}]}
    - {type: dense, name: fc2, units: 10}
train: {epochs: 3, batch: 32, microbatches: 4}
optimizer: {name: adamw, lr: 0.01, clip_norm: 0.5, no_decay: [bias, norm]}
schedule: {name: cosine, warmup: 5}
`

// A tied table on the first and the last stage.
const tied = `
data: {source: text, path: TEXT, context: 8}
model: {preset: gpt, layers: 2, heads: 2, width: 16, dropout: 0.1}
train: {epochs: 1, batch: 16, microbatches: 4}
optimizer: {name: adamw, lr: 0.01, clip_norm: 1.0}
`

func open(t *testing.T, text string, set ...string) *berth.Run {
	t.Helper()
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func train(t *testing.T, r *berth.Run, o berth.TrainOptions) *berth.Report {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	rep, err := r.Train(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// tiedConfig is tied with a text of its own.
func tiedConfig(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "text.txt")
	text := ""
	for i := range 300 {
		text += fmt.Sprintf("%d bottles, %d more; ", i, i*i%17)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(tied, "TEXT", path, 1)
}

func TestWeightsAreTheSameOnAnyStagesThreadsAndSchedule(t *testing.T) {
	for name, text := range map[string]string{"everything": everything, "tied": tiedConfig(t)} {
		want := train(t, open(t, text, "devices=cpu:1", "devices.threads=1"), berth.TrainOptions{AssertResident: true})
		for _, set := range [][]string{
			{"devices=cpu:1", "devices.threads=2"},
			{"devices=cpu:2"},
			{"devices=cpu:3"},
			{"devices=cpu:3", "partition.schedule=gpipe"},
			{"devices=cpu:2", "partition.stages=3"},
		} {
			got := train(t, open(t, text, set...), berth.TrainOptions{AssertResident: true})
			if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) {
				t.Errorf("%s: %v changes the weights or losses (%d stages)", name, set, got.Stages)
			}
		}
	}
}

// TestBF16 wants losses near those of float32 and weights that are others, but
// the same however the run is cut.
func TestBF16(t *testing.T) {
	text := tiedConfig(t)
	single := train(t, open(t, text), berth.TrainOptions{})
	want := train(t, open(t, text, "precision=bf16", "devices=cpu:1", "devices.threads=1"), berth.TrainOptions{})
	got := train(t, open(t, text, "precision=bf16", "devices=cpu:2"), berth.TrainOptions{})
	if got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("two devices give other weights than one thread")
	}
	if want.WeightsSHA256 == single.WeightsSHA256 {
		t.Error("bf16 gives the weights of float32")
	}
	if a, b := *want.Final.TrainLoss, *single.Final.TrainLoss; math.Abs(a-b) > 0.02*b {
		t.Errorf("the loss is %v, in float32 %v", a, b)
	}
}

func TestResumeIsExactFromEveryStep(t *testing.T) {
	want := train(t, open(t, everything), berth.TrainOptions{})
	if want.Steps != 33 {
		t.Fatalf("the run has %d steps, the test expects 33", want.Steps)
	}
	for _, stop := range []int{1, 10, 11, 12, 21, 22, 32} {
		dir := t.TempDir()
		train(t, open(t, everything), berth.TrainOptions{Dir: dir, MaxSteps: stop})
		got := train(t, open(t, everything, "devices=cpu:2"), berth.TrainOptions{Dir: dir, Resume: true})
		if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) {
			t.Errorf("stopped after %d steps and resumed: other weights or losses", stop)
		}
		if *got.Final.ValLoss != *want.Final.ValLoss || *got.Final.TrainLoss != *want.Final.TrainLoss {
			t.Errorf("stopped after %d steps and resumed: other metrics", stop)
		}
	}
}

func TestResumeOfAFinishedRunChangesNothing(t *testing.T) {
	dir := t.TempDir()
	want := train(t, open(t, everything), berth.TrainOptions{Dir: dir})
	got := train(t, open(t, everything), berth.TrainOptions{Dir: dir, Resume: true})
	if got.WeightsSHA256 != want.WeightsSHA256 || got.Steps != want.Steps || !slices.Equal(got.Losses, want.Losses) {
		t.Errorf("got %d steps and %d losses, want %d and %d", got.Steps, len(got.Losses), want.Steps, len(want.Losses))
	}
	if got.Final.ValLoss == nil || *got.Final.ValLoss != *want.Final.ValLoss {
		t.Error("the final metrics are gone")
	}
	if got.Throughput != want.Throughput || got.Throughput.StepMSP50 == 0 || got.Ledger.SteadyState != want.Ledger.SteadyState {
		t.Errorf("what the run measured, %+v, became %+v", want.Throughput, got.Throughput)
	}
}

func TestFinalBeforeAnEpochEnds(t *testing.T) {
	rep := train(t, open(t, everything), berth.TrainOptions{MaxSteps: 2})
	if len(rep.Losses) != 2 || rep.Final.TrainLoss == nil || rep.Final.ValLoss != nil {
		t.Fatalf("losses %v, final %+v", rep.Losses, rep.Final)
	}
	if want := (rep.Losses[0] + rep.Losses[1]) / 2; math.Abs(*rep.Final.TrainLoss-want) > 1e-12 {
		t.Errorf("training loss %v, want %v", *rep.Final.TrainLoss, want)
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
	rep, err := open(t, everything).Train(ctx, o)
	if !errors.Is(err, berth.ErrStopped) || rep == nil || rep.Steps != 7 {
		t.Fatalf("got %v and report %+v, want ErrStopped after 7 steps", err, rep)
	}
	got := train(t, open(t, everything), berth.TrainOptions{Dir: dir, Resume: true})
	want := train(t, open(t, everything), berth.TrainOptions{})
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
	if _, err := berth.Open(over, c); !errors.Is(err, context.Canceled) || berth.IsUsage(err) {
		t.Errorf("while reading the data: %v", err)
	}
	dir := t.TempDir()
	want := train(t, open(t, everything), berth.TrainOptions{Dir: dir, MaxSteps: 3})
	late := berth.TrainOptions{Dir: dir, Resume: true, MaxTime: time.Hour, Began: time.Now().Add(-2 * time.Hour)}
	for name, try := range map[string]func() (*berth.Report, error){
		"context": func() (*berth.Report, error) {
			return open(t, everything).Train(over, berth.TrainOptions{Dir: dir, Resume: true})
		},
		"time": func() (*berth.Report, error) { return open(t, everything).Train(t.Context(), late) },
	} {
		rep, err := try()
		if rep != nil || !errors.Is(err, berth.ErrStopped) || !strings.Contains(err.Error(), "before the first step") {
			t.Errorf("%s: got %v, report %v", name, err, rep)
		}
	}
	if got := train(t, open(t, everything), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 3}); got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("the run is not what it was")
	}
}

func TestLedgerOfARun(t *testing.T) {
	r := open(t, everything, "devices=cpu:1", "train.epochs=1")
	rep := train(t, r, berth.TrainOptions{AssertResident: true})
	l := rep.Ledger
	if want := rep.Parameters*4 + 2*4*4; l.CopyInWeightBytes != want { // and two statistics of four channels
		t.Errorf("%d bytes of weights were copied in, want them once: %d", l.CopyInWeightBytes, want)
	}
	batch := int64(32 * (64*4 + 4))
	if s := l.SteadyState; s.CopyInBytesPerStep != batch || s.BatchBytesPerStep != batch || s.PullBackBytesPerStep != 0 {
		t.Errorf("a step moves %+v, want %d bytes in and none out", s, batch)
	}
	if l.SpillBytes != 0 || l.PeerBytes != 0 {
		t.Errorf("spilled %d, peer copies %d, want none on one device", l.SpillBytes, l.PeerBytes)
	}
	for reason := range l.ByReason {
		if reason != "epoch" && reason != "checkpoint" {
			t.Errorf("bytes came out for %q", reason)
		}
	}
}

func TestEvalAndPredictUseTheCheckpoint(t *testing.T) {
	dir := t.TempDir()
	rep := train(t, open(t, everything), berth.TrainOptions{Dir: dir})
	r := open(t, everything, "devices=cpu:2")
	res, err := r.Eval(t.Context(), berth.Weights{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if res.Loss != *rep.Final.ValLoss || *res.Accuracy != *rep.Final.ValAccuracy {
		t.Errorf("eval gives %v, %v, training had %v, %v", res.Loss, *res.Accuracy, *rep.Final.ValLoss, *rep.Final.ValAccuracy)
	}
	n := 0
	_, err = r.Predict(t.Context(), berth.Weights{Dir: dir}, "", func(p berth.Prediction) error {
		if p.Index != n || p.Class == nil || len(p.Values) != 10 {
			return fmt.Errorf("prediction %d is %+v", n, p)
		}
		var sum float64
		for _, v := range p.Values {
			sum += float64(v)
		}
		if math.Abs(sum-1) > 1e-5 {
			return fmt.Errorf("probabilities of sample %d sum to %v", n, sum)
		}
		n++
		return nil
	})
	if err != nil || n != res.Samples {
		t.Errorf("%d predictions of %d, %v", n, res.Samples, err)
	}
}

func TestEvalMayBeCancelledAtAnyTime(t *testing.T) {
	dir := t.TempDir()
	train(t, open(t, everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	r := open(t, everything, "devices=cpu:2")
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		_, err := r.Eval(ctx, berth.Weights{Dir: dir})
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

func TestAFreshRunThatCannotStartDeletesNothing(t *testing.T) {
	dir := t.TempDir()
	want := train(t, open(t, everything), berth.TrainOptions{Dir: dir, MaxSteps: 3})
	_, err := open(t, everything).Train(t.Context(), berth.TrainOptions{Dir: dir, Fresh: true, Init: "nosuch.safetensors"})
	if !errors.Is(err, berth.ErrInit) {
		t.Fatalf("got %v, want ErrInit", err)
	}
	if got := train(t, open(t, everything), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 3}); got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("the earlier run is gone")
	}
}

// A fresh run holds the folder from the moment it has claimed it: nobody else
// gets at the checkpoints that it deletes, nor at those that it begins.
func TestAFreshRunLetsNobodyIn(t *testing.T) {
	dir := t.TempDir()
	path := rundir.CheckpointPath(dir)
	train(t, open(t, everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
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
				db, err := checkpoint.Open(path, checkpoint.Options{ReadOnly: true})
				if err == nil {
					t.Error("another got the checkpoints of a run that begins anew")
					err = db.Close()
				}
				if err != nil && !errors.Is(err, checkpoint.ErrHeld) && !errors.Is(err, checkpoint.ErrNotFound) {
					t.Error(err)
				}
			}
		})
		o := berth.TrainOptions{Dir: dir, Fresh: true, MaxSteps: 1, Observer: &berth.Observer{Started: func(berth.Start) { began.Store(true) }}}
		_, err := open(t, everything).Train(t.Context(), o)
		began.Store(true)
		all.Wait()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestPredictNeedsNoTrainingData(t *testing.T) {
	data := filepath.Join(t.TempDir(), "train.csv")
	file := filepath.Join(t.TempDir(), "new.csv")
	rows := "a,b,kind\n"
	for i := range 60 {
		rows += fmt.Sprintf("%d,%d,%s\n", i, i*7%13, []string{"low", "high"}[i/30])
	}
	for path, text := range map[string]string{data: rows, file: "a,b\n3,4\n55,4\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := "data: {source: csv, path: " + data + ", label: kind, standardize: true}\nmodel: {preset: mlp, hidden: [8]}\ntrain: {epochs: 20, batch: 8}\noptimizer: {name: adam, lr: 0.05}\n"
	dir := t.TempDir()
	train(t, open(t, text), berth.TrainOptions{Dir: dir})
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	w := berth.Weights{Dir: dir}
	r, err := berth.OpenTrained(t.Context(), c, w)
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	_, err = r.Predict(t.Context(), file, func(p berth.Prediction) error {
		labels = append(labels, p.Label)
		return nil
	})
	if err := errors.Join(err, r.Close()); err != nil || !slices.Equal(labels, []string{"low", "high"}) {
		t.Errorf("got %v, %v", labels, err)
	}
}

func TestLossThatIsNotFiniteNamesStepLayerAndCheckpoint(t *testing.T) {
	for _, devices := range []string{"cpu:1", "cpu:2"} {
		r := open(t, everything, "devices="+devices, "optimizer.lr=1e30", "schedule=constant", "checkpoint.every=1")
		_, err := r.Train(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
		if !errors.Is(err, berth.ErrNonFinite) {
			t.Fatalf("got %v, want ErrNonFinite", err)
		}
		for _, part := range []string{"step 2", "first in layer", "the last good checkpoint is of step 1"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q lacks %q", devices, err, part)
			}
		}
	}
}

func TestRunFolderThatHoldsACheckpoint(t *testing.T) {
	dir := t.TempDir()
	train(t, open(t, everything), berth.TrainOptions{Dir: dir, MaxSteps: 3})
	if _, err := open(t, everything).Train(t.Context(), berth.TrainOptions{Dir: dir}); !errors.Is(err, berth.ErrHasCheckpoint) {
		t.Errorf("got %v, want ErrHasCheckpoint", err)
	}
	changed := open(t, everything, "optimizer.lr=0.5")
	if _, err := changed.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true}); !errors.Is(err, berth.ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	if rep := train(t, open(t, everything), berth.TrainOptions{Dir: dir, Fresh: true, MaxSteps: 2}); rep.Steps != 2 {
		t.Errorf("a fresh run took %d steps, want 2", rep.Steps)
	}
	if _, err := open(t, everything).Train(t.Context(), berth.TrainOptions{Dir: t.TempDir(), Resume: true}); !errors.Is(err, berth.ErrNoCheckpoint) {
		t.Errorf("got %v, want ErrNoCheckpoint", err)
	}
}

// A resume never leaves less than a whole config.yaml: it writes another file
// and renames it.
func TestConfigIsReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	train(t, open(t, everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
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
		train(t, open(t, everything, set), berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 2})
		now, err := os.ReadFile(path)
		old, err2 := os.ReadFile(other)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(old, before) || bytes.Equal(now, before) == changed {
			t.Errorf("changed %v: the file's earlier contents are now %d bytes of %d", changed, len(old), len(before))
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.new")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestEarlyStoppingSurvivesAResume(t *testing.T) {
	set := []string{"early_stopping.metric=val_loss", "early_stopping.patience=2", "early_stopping.min_delta=100", "train.epochs=9"}
	want := train(t, open(t, everything, set...), berth.TrainOptions{})
	if want.Epochs != 3 {
		t.Errorf("stopped after %d epochs, want 3: one that counts and two without improvement", want.Epochs)
	}
	dir := t.TempDir()
	train(t, open(t, everything, set...), berth.TrainOptions{Dir: dir, MaxSteps: 25})
	for range 2 { // the second finds the run stopped
		got := train(t, open(t, everything, set...), berth.TrainOptions{Dir: dir, Resume: true})
		if got.Steps != want.Steps || got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("resumed: %d steps, want %d, or other weights", got.Steps, want.Steps)
		}
	}
}

func TestReportFileIsTheReport(t *testing.T) {
	dir := t.TempDir()
	rep := train(t, open(t, everything), berth.TrainOptions{Dir: dir, MaxSteps: 5, Report: filepath.Join(dir, "copy.json")})
	for _, name := range []string{"report.json", "copy.json"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var got berth.Report
		if err := json.Unmarshal(b, &got); err != nil || got.WeightsSHA256 != rep.WeightsSHA256 {
			t.Errorf("%s: %v, weights %s, want %s", name, err, got.WeightsSHA256, rep.WeightsSHA256)
		}
	}
}
