package berth_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/fault"
)

// both is a validation part and a test part.
const both = "val: 0.1, test: 0.2"

// datedTable writes a table of days, in which the last fifth of the rows has other numbers and words
// than those before it.
func datedTable(t *testing.T, late func(i int) string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("day,x,plan,y\n")
	for i := range 100 {
		x := fmt.Sprintf("%d,%s", i*7%13, []string{"basic", "plus", "pro"}[i%3])
		if i >= 80 {
			x = late(i)
		}
		fmt.Fprintf(&b, "2024-%02d-%02d,%s,%d\n", 1+i/28, 1+i%28, x, i%2)
	}
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// trainLatest trains on all but the latest rows, with more keys in the config.
func trainLatest(t *testing.T, path, split, more string, o berth.TrainOptions) (*berth.Run, *berth.Report) {
	t.Helper()
	text := "data: {source: csv, path: '" + path + "', ignore: [day], split: {" + split + ", latest: day}}\n" +
		"model: {preset: mlp, hidden: [8]}\ntrain: {epochs: 3, batch: 16, metrics: all}\n" + more
	cfg, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(t.Context(), cfg, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	o.Dir = t.TempDir()
	rep, err := run.Train(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return run, rep
}

// Training and validation are the same whatever the test part holds.
func TestNothingSeesTheTestPart(t *testing.T) {
	_, one := trainLatest(t, datedTable(t, func(i int) string { return fmt.Sprintf("%d,basic", i%5) }), both, "", berth.TrainOptions{})
	_, other := trainLatest(t, datedTable(t, func(i int) string { return fmt.Sprintf("%d,gold%d", 1000*i, i) }), both, "", berth.TrainOptions{})
	if one.WeightsSHA256 != other.WeightsSHA256 || *one.Final.ValLoss != *other.Final.ValLoss {
		t.Errorf("weights %s and %s, validation losses %v and %v", one.WeightsSHA256, other.WeightsSHA256, *one.Final.ValLoss, *other.Final.ValLoss)
	}
	if one.Test == nil || other.Test == nil || one.Test.Loss == other.Test.Loss || one.Test.Samples != 20 || one.Test.Step != one.Steps {
		t.Errorf("tests %+v and %+v", one.Test, other.Test)
	}
}

// The test has the result that an evaluation of the newest checkpoint has, and steps that a program
// takes one by one end with the same.
func TestTestPartFromGo(t *testing.T) {
	path := datedTable(t, func(i int) string { return fmt.Sprintf("%d,pro", i%5) })
	run, rep := trainLatest(t, path, both, "", berth.TrainOptions{})
	dir := t.TempDir()
	training, err := run.Start(t.Context(), berth.TrainOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer training.Close()
	for training.More() {
		if err := training.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	steps, err := training.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := training.Close(); err != nil {
		t.Fatal(err)
	}
	model, err := berth.OpenTrained(t.Context(), run.Config, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	e, err := model.EvalTest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e.Part != "test" || e.Loss != rep.Test.Loss || steps.Test == nil || steps.Test.Loss != rep.Test.Loss || e.Weights.ID != steps.Test.Checkpoint {
		t.Errorf("evaluated %+v\nby steps %+v\nby Train %+v", e, steps.Test, rep.Test)
	}
}

// A device that is lost while the test part is evaluated leaves the others to do it.
func TestTestPartOutlivesADevice(t *testing.T) {
	path := datedTable(t, func(i int) string { return fmt.Sprintf("%d,pro", i%5) })
	const two = "partition: {stages: 2}\ndevices: {use: 'cpu:2', on_device_loss: replan}\n"
	_, whole := trainLatest(t, path, "test: 0.2", two, berth.TrainOptions{})
	within := 0 // losses in the evaluation of the test part
	for launch := 1; launch < 60; launch++ {
		_, rep := trainLatest(t, path, "test: 0.2", two, berth.TrainOptions{Faults: []fault.Fault{{Device: "cpu:1", Op: fault.Launch, N: launch, Kind: fault.Lost}}})
		if rep.Test == nil || rep.Test.Loss != whole.Test.Loss || rep.WeightsSHA256 != whole.WeightsSHA256 {
			t.Fatalf("lost at launch %d: %+v, want %+v", launch, rep.Test, whole.Test)
		}
		if len(rep.DeviceLosses) > 0 && rep.DeviceLosses[0].Resumed == rep.Steps {
			within++
		}
	}
	if within == 0 {
		t.Error("no launch of the evaluation failed")
	}
}

// The test part is judged with the best checkpoint, and not with the newest, as Eval judges.
func TestTestPartOfTheBest(t *testing.T) {
	c, err := configs.Load("digits", configs.Overlay{Set: []string{"data.split={val: 0.2, test: 0.2}", "train.epochs=6", "optimizer.lr=0.1", "schedule.name=constant", "schedule.warmup=0", "checkpoint.keep.last=2"}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	dir := filepath.Join(t.TempDir(), "run")
	rep, err := run.Train(t.Context(), berth.TrainOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Best.Step == rep.Steps {
		t.Fatal("the best checkpoint is the newest: the test shows nothing")
	}
	model, err := berth.OpenTrained(t.Context(), run.Config, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	best, err := model.EvalTest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if own, err := run.EvalTest(t.Context(), berth.Weights{Dir: dir}); err != nil || own.Part != "test" || own.Loss != best.Loss || own.Weights.ID != best.Weights.ID {
		t.Errorf("the run evaluated %+v, %v, want %+v", own, err, best)
	}
	if rep.Test.Checkpoint != rep.Best.Checkpoint || rep.Test.Step != rep.Best.Step || rep.Test.Loss != best.Loss {
		t.Errorf("test %+v, best %+v, evaluated %+v", rep.Test, rep.Best, best)
	}
}
