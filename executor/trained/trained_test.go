package trained_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/partition"
)

func TestEvalAndPredictUseTheCheckpoint(t *testing.T) {
	dir := t.TempDir()
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir})
	r := runtest.Open(t, runtest.Everything, "devices=cpu:2")
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

// Weights of another model are refused when they are opened.
func TestTrainedOfAnotherModel(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	c := runtest.Parsed(t, "digits")
	if _, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{}); !errors.Is(err, berth.ErrChanged) || !berth.IsUsage(err) {
		t.Errorf("%v, want ErrChanged", err)
	}
}

// A model that was trained with a batch beyond its data is evaluated as training
// did it, to the bit, though no microbatch of that size has room.
func TestEvalOfABatchBeyondTheData(t *testing.T) {
	const text = "data: {source: digits, split: 0.3}\nmodel: {preset: mlp, hidden: [8]}\ntrain: {batch: 2000000000, epochs: 1}\n"
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rep := runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{Dir: dir})
	m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if res, err := m.Eval(t.Context()); err != nil || res.Loss != *rep.Final.ValLoss {
		t.Errorf("%v, %v; training had %v", res.Loss, err, *rep.Final.ValLoss)
	}
}

func TestEvalMayBeCancelledAtAnyTime(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	r := runtest.Open(t, runtest.Everything, "devices=cpu:2")
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		_, err := r.Eval(ctx, berth.Weights{Dir: dir})
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
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
	runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{Dir: dir})
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	w := berth.Weights{Dir: dir}
	r, err := berth.OpenTrained(t.Context(), c, w, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Predict(over, file, func(berth.Prediction) error { return nil }); !errors.Is(err, context.Canceled) || berth.IsUsage(err) {
		t.Errorf("cancelled: %v", err)
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

// Evaluating what is not the newest checkpoint says so.
func TestEvalSaysWhatItSkipped(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.every=1"), berth.TrainOptions{Dir: dir, MaxSteps: 2})
	runtest.DamageStep(t, dir, 2)
	r := runtest.Open(t, runtest.Everything)
	res, err := r.Eval(t.Context(), berth.Weights{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Weights.Skipped; len(s) != 1 || s[0].ID != 2 || !errors.Is(s[0].Err, checkpoint.ErrDamaged) {
		t.Errorf("skipped %v", s)
	}
	if res.Weights.ID != 1 || res.Weights.Step != 1 {
		t.Errorf("used %+v", res.Weights)
	}
}

// A model with room for more classes than the data has answers for all of them.
func TestPredictGivesEveryProbability(t *testing.T) {
	const text = "data: digits\nmodel: {preset: mlp, hidden: [8], outputs: 13}\ntrain: {batch: 32}\n"
	dir := t.TempDir()
	r := runtest.Open(t, text)
	runtest.Train(t, r, berth.TrainOptions{Dir: dir, MaxSteps: 1})
	_, err := r.Predict(t.Context(), berth.Weights{Dir: dir}, "", func(p berth.Prediction) error {
		var sum float32
		for _, v := range p.Values {
			sum += v
		}
		if len(p.Values) != 13 || sum < 0.999 || sum > 1.001 {
			return fmt.Errorf("%d values with sum %v", len(p.Values), sum)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A trained model is opened to be used: it says which checkpoint it has, and is
// refused once it is closed.
func TestTrained(t *testing.T) {
	dir := t.TempDir()
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.keep.last=9"), berth.TrainOptions{Dir: dir})
	c, err := configs.Parse("test.yaml", []byte(runtest.Everything), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		w    berth.Weights
		want berth.Used
	}{
		{berth.Weights{Dir: dir}, berth.Used{}},
		{berth.Weights{Dir: dir, Last: true}, berth.Used{ID: 3, Step: 33}},
		{berth.Weights{Dir: dir, ID: 1}, berth.Used{ID: 1, Step: 11}},
		{berth.Weights{Dir: dir, Best: true}, berth.Used{}},
	} {
		m, err := berth.OpenTrained(t.Context(), c, x.w, berth.TrainedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		res, err := m.Eval(t.Context())
		n := 0
		used, err2 := m.Predict(t.Context(), "", func(berth.Prediction) error { n++; return nil })
		if err := errors.Join(err, err2, m.Close()); err != nil {
			t.Fatal(err)
		}
		got := res.Weights
		if got.ID != used.ID || got.ID != m.Used().ID || n != res.Samples {
			t.Errorf("%+v: eval used %+v, predict %+v on %d samples", x.w, got, used, n)
		}
		if got.BestID == 0 || got.Best != (got.ID == got.BestID) || x.w.ID == 0 && !x.w.Last && !got.Best {
			t.Errorf("%+v: used %+v", x.w, got)
		}
		if x.want.ID != 0 && (got.ID != x.want.ID || got.Step != x.want.Step) {
			t.Errorf("%+v: used %+v", x.w, got)
		}
		if got.ID == 3 && res.Loss != *rep.Final.ValLoss {
			t.Errorf("loss %v, in training %v", res.Loss, *rep.Final.ValLoss)
		}
		if _, err := m.Eval(t.Context()); !errors.Is(err, berth.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if _, ok := any(&berth.Trained{}).(interface {
		Train(context.Context, berth.TrainOptions) (*berth.Report, error)
	}); ok {
		t.Error("a trained model can be trained, without data")
	}
}

// Without a checkpoint, weights of a file are used with the config's data.
func TestTrainedOfAFile(t *testing.T) {
	dir := t.TempDir()
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir})
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := db.List()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "w.safetensors")
	if err := errors.Join(db.Export(list[len(list)-1].ID, file, "parameter", "statistic"), db.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := configs.Parse("test.yaml", []byte(runtest.Everything), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{t.TempDir(), dir} {
		m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: folder, Init: file}, berth.TrainedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		res, err := m.Eval(t.Context())
		if err := errors.Join(err, m.Close()); err != nil {
			t.Fatal(err)
		}
		if u := res.Weights; res.Loss != *rep.Final.ValLoss || u.File != file || u.ID != 0 {
			t.Errorf("loss %v of %+v, in training %v", res.Loss, u, *rep.Final.ValLoss)
		}
	}
}

// asked is a context that calls f whenever it is asked whether it has ended.
type asked struct {
	context.Context
	f func()
}

func (a asked) Err() error {
	a.f()
	return a.Context.Err()
}

// A checkpoint that was found is there until its weights are loaded, however hard
// another process tries to delete it.
func TestFoundCheckpointsStay(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	var mu sync.Mutex
	found, deleted := false, false
	remove := func() {
		mu.Lock()
		defer mu.Unlock()
		db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
		if errors.Is(err, checkpoint.ErrHeld) {
			found = true
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if found && !deleted {
			deleted, err = true, db.Delete(1)
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
	}
	ctx := asked{t.Context(), remove}
	r := runtest.Open(t, runtest.Everything)
	if _, err := r.Eval(ctx, berth.Weights{Dir: dir}); err != nil || !found {
		t.Errorf("found %v, %v", found, err)
	}
	if found {
		remove()
	}
	if _, err := r.Eval(t.Context(), berth.Weights{Dir: dir}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// A trained model keeps its checkpoint from its opening until its first use, and
// then no longer.
func TestOpenTrainedKeepsItsCheckpoint(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	c, err := configs.Parse("test.yaml", []byte(runtest.Everything), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	write := func() error {
		db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
		if err != nil {
			return err
		}
		return db.Close()
	}
	for name, use := range map[string]func(*berth.Trained) error{
		"eval": func(m *berth.Trained) error { _, err := m.Eval(t.Context()); return err },
		"predict": func(m *berth.Trained) error {
			said := 0
			_, err := m.Predict(t.Context(), "", func(berth.Prediction) error {
				if said++; said > 1 {
					return nil
				}
				return write()
			})
			return err
		},
		"close": func(m *berth.Trained) error { return nil },
	} {
		m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := write(); !errors.Is(err, checkpoint.ErrHeld) {
			t.Errorf("%s: opened for writing before it: %v", name, err)
		}
		if err := use(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "close" {
			err = m.Close()
		}
		if err := errors.Join(err, write()); err != nil {
			t.Errorf("%s: opened for writing after it: %v", name, err)
		}
		if name != "close" {
			if err := errors.Join(use(m), m.Close()); err != nil { // it finds the checkpoint anew
				t.Errorf("%s again: %v", name, err)
			}
		}
	}
}

// A limit of memory is refused where an evaluation needs more at once, with the number, as in training: given
// that, it runs.
func TestLimitBelowTheFloor(t *testing.T) {
	const model = "data: digits\nmodel: {preset: mlp, hidden: [512]}\n"
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, model), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	open := func(devices string) (*berth.Trained, error) {
		c, err := configs.Parse("test.yaml", []byte(model+"devices: "+devices+"\n"), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		return berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	}
	for _, devices := range []string{"{memory: 10%}", "{use: cpu:2, memory: 10%}", "{memory: 64KiB}"} {
		m, err := open(devices)
		small, ok := errors.AsType[*partition.MemoryError](err)
		if !ok || m != nil || !berth.IsUsage(err) || !strings.HasSuffix(err.Error(), "devices.memory, test.yaml:3)") {
			t.Fatalf("%s: %v", devices, err)
		}
		if m, err = open(fmt.Sprintf("{memory: %d}", small.Floor)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Eval(t.Context()); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
