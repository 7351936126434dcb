package trained_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/partition"
)

// prices is a config of a regression whose targets are large numbers, and the path of
// its table.
func prices(t *testing.T, more string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("rooms,age,price\n")
	for i := range 120 {
		fmt.Fprintf(&b, "%d,%d,%d\n", 1+i%7, i*13%40, 50_000+20_000*(1+i%7)-500*(i*13%40)+i*7919%3000)
	}
	path := filepath.Join(t.TempDir(), "prices.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return "data: {source: csv, path: " + path + ", label: price, task: regression" + more + "}\nmodel: {preset: mlp, hidden: [8]}\ntrain: {epochs: 3, batch: 8}\noptimizer: {lr: 0.02}\n"
}

// boundaries trains a run, and gives what came out at its boundaries, and the warnings.
func boundaries(t *testing.T, r *berth.Run, dir string) (list []berth.Boundary, warnings []string) {
	t.Helper()
	runtest.Train(t, r, berth.TrainOptions{Dir: dir, Observer: &berth.Observer{
		Boundary: func(b berth.Boundary) { list = append(list, b) },
		Warn:     func(text string) { warnings = append(warnings, text) },
	}})
	return list, warnings
}

// The metrics of a regression are those of its predictions, in the unit of the target,
// which is standardised unless that is forbidden.
func TestMetricsOfNumbers(t *testing.T) {
	for more, scaled := range map[string]bool{"": true, ", standardize_target: false": false} {
		r, dir := runtest.Open(t, prices(t, more)), t.TempDir()
		list, _ := boundaries(t, r, dir)
		if got := r.Data.Info.TargetScaling != nil; got != scaled {
			t.Errorf("%q: the target is standardised: %t", more, got)
		}
		targets := r.Data.Val.Alloc(r.Data.Val.Len())
		if _, err := r.Data.Val.Read(datasets.Cursor{}, r.Data.Val.Len(), targets); err != nil {
			t.Fatal(err)
		}
		truth := shape.View[float32](targets[1])
		if scaled {
			r.Data.Info.TargetScaling.Undo(truth)
		}
		var off, squares, sum, spread float64
		_, err := r.Predict(t.Context(), berth.Weights{Dir: dir}, "", func(p berth.Prediction) error {
			d := float64(p.Values[0]) - float64(truth[p.Index])
			off, squares, sum = off+math.Abs(d), squares+d*d, sum+float64(truth[p.Index])
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		n := float64(len(truth))
		for _, v := range truth {
			spread += (float64(v) - sum/n) * (float64(v) - sum/n)
		}
		want := berth.Metrics{"mae": off / n, "rmse": math.Sqrt(squares / n), "r2": 1 - squares/spread}
		e, err := r.Eval(t.Context(), berth.Weights{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		for name, w := range want {
			for _, got := range []float64{list[len(list)-1].Metrics[name], e.Metrics[name]} {
				if math.Abs(got-w) > 1e-4*math.Abs(w) {
					t.Errorf("%q: %s is %v, of the predictions %v", more, name, got, w)
				}
			}
		}
	}
}

// A model that is worse than the mean of the targets is warned of, in training and in
// an evaluation. The first boundary is the last one here, and says it in its own way.
func TestWorseThanTheMean(t *testing.T) {
	r, dir := runtest.Open(t, prices(t, ", standardize_target: false"), "train.epochs=1"), t.TempDir()
	_, warnings := boundaries(t, r, dir)
	trained, err := berth.OpenTrained(t.Context(), r.Config, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer trained.Close()
	if _, err := trained.Eval(t.Context()); err != nil {
		t.Fatal(err)
	}
	for want, list := range map[string][]string{
		", and always answering with the mean of the targets gives ":     warnings,
		"worse than always answering with the mean of the targets (R² -": trained.Warnings(),
	} {
		if len(list) != 1 || !strings.Contains(list[0], want) {
			t.Errorf("warnings %q", list)
		}
	}
}

// Any metric stops a run, and ranks its checkpoints: it is computed though train.metrics
// does not name it.
func TestMetricsRankAndStop(t *testing.T) {
	r, dir := runtest.Open(t, runtest.Everything, "train.epochs=8", "checkpoint.best=val_f1", "checkpoint.keep.last=9",
		"early_stopping.metric=val_auc", "early_stopping.patience=2", "early_stopping.min_delta=1"), t.TempDir()
	list, _ := boundaries(t, r, dir)
	if len(list) != 3 { // no area gains 1
		t.Errorf("%d epochs, of which the first has the best area", len(list))
	}
	best := slices.MaxFunc(list, func(a, b berth.Boundary) int {
		if a.Metrics["f1"] > b.Metrics["f1"] {
			return 1
		}
		return -1
	})
	e, err := r.Eval(t.Context(), berth.Weights{Dir: dir, Best: true})
	if err != nil || e.Metrics["f1"] != best.Metrics["f1"] {
		t.Errorf("the best checkpoint has an F1 of %v, want %v; %v", e.Metrics["f1"], best.Metrics["f1"], err)
	}
	for _, name := range []string{"accuracy", "f1", "auc"} {
		if v := best.Metrics[name]; !(v > 0 && v <= 1) {
			t.Errorf("%s is %v", name, v)
		}
	}
	if *best.ValAccuracy != best.Metrics["accuracy"] {
		t.Errorf("accuracies %v and %v", *best.ValAccuracy, best.Metrics["accuracy"])
	}
}

// Metrics are the same for every cut, and their classes and matrix are of all answers.
func TestMetricsOfClasses(t *testing.T) {
	var want berth.Evaluation
	for i, devices := range []string{"cpu", "cpu:2"} {
		r, dir := runtest.Open(t, runtest.Everything, "devices.use="+devices, "train.metrics=all", "train.epochs=2"), t.TempDir()
		list, _ := boundaries(t, r, dir)
		e, err := r.Eval(t.Context(), berth.Weights{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		last := list[len(list)-1]
		if !reflect.DeepEqual(last.Metrics, e.Metrics) || !reflect.DeepEqual(last.Confusion, e.Confusion) {
			t.Errorf("%s: the boundary has %v, %v; the evaluation %v, %v", devices, last.Metrics, last.Confusion, e.Metrics, e.Confusion)
		}
		e.Weights = berth.Used{}
		if i == 0 {
			want = e
		} else if !reflect.DeepEqual(e, want) {
			t.Errorf("%s: %+v, want %+v", devices, e, want)
		}
	}
	total := int64(0)
	for i, row := range want.Confusion {
		n := int64(0)
		for _, v := range row {
			n += v
		}
		if total += n; want.Classes[i].Answers != n {
			t.Errorf("class %d has %d answers, and a row of %d", i, want.Classes[i].Answers, n)
		}
	}
	if int(total) != want.Samples {
		t.Errorf("%d answers about %d samples", total, want.Samples)
	}
	if _, err := json.Marshal(want); err != nil {
		t.Error(err)
	}
}

// A metric that the model cannot have is refused where it is named, before training.
func TestMetricsAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"train.metrics=[top_100]":           "train.metrics: top_100: it is always 1 with 10 classes",
		"checkpoint.best=val_f1_class_10":   "checkpoint.best: f1_class_10: there are 10 classes, numbered from 0",
		"train.metrics=[f1, auc_class_123]": "train.metrics: auc_class_123: there are 10 classes",
	} {
		c, err := configs.Parse("test.yaml", []byte(runtest.Everything), configs.Overlay{Set: []string{set}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := berth.Open(t.Context(), c, berth.OpenOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", set, r, err, want)
		}
	}
}

// The memory of counts is part of the plan: metrics that are asked for are refused where
// there is too little of it, and an evaluation leaves the others out.
func TestMetricsWithoutRoom(t *testing.T) {
	var b strings.Builder
	b.WriteString("a,kind\n")
	for i := range 600 {
		fmt.Fprintf(&b, "%d,c%d\n", i%300, i%300)
	}
	path := filepath.Join(t.TempDir(), "kinds.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	text := "data: {source: csv, path: " + path + ", label: kind}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 1, batch: 16}\n"
	dir, r := t.TempDir(), runtest.Open(t, text)
	runtest.Train(t, r, berth.TrainOptions{Dir: dir})
	want := "eval/confusion on cpu:0 needs 351.6 KiB"
	for set, ok := range map[string]bool{"train.metrics=auto": true, "train.metrics=all": true, "train.metrics=[recall]": false} {
		c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{Set: []string{set, "devices.memory=200KiB"}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := m.Eval(t.Context())
		warned := strings.Join(m.Warnings(), "; ")
		if ok && (err != nil || e.Confusion != nil || e.Accuracy == nil || !strings.Contains(warned, "some metrics are left out: memory for the metrics: ") || !strings.Contains(warned, want)) {
			t.Errorf("%s: %+v, %v, warnings %q", set, e, err, warned)
		}
		if !ok && (!errors.Is(err, partition.ErrMemory) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Scores that would take much of a bound on host memory are left out unless a metric of
// them is named.
func TestScoresWithinHostMemory(t *testing.T) {
	var b strings.Builder
	b.WriteString("a,kind\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "%d,c%d\n", i%100, i%100)
	}
	path := filepath.Join(t.TempDir(), "kinds.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	text := "data: {source: csv, path: " + path + ", label: kind, split: 0.1}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 1, batch: 16}\n"
	for bound, want := range map[string]bool{"1MiB": false, "64MiB": true} { // the scores take 1.03 MiB
		r, dir := runtest.Open(t, text, "devices.host_memory="+bound), t.TempDir()
		runtest.Train(t, r, berth.TrainOptions{Dir: dir})
		e, err := r.Eval(t.Context(), berth.Weights{Dir: dir})
		if _, got := e.Metrics["auc"]; err != nil || got != want || e.Metrics["f1"] == 0 {
			t.Errorf("%s: %v, %v", bound, e.Metrics, err)
		}
	}
}

// A run says where a metric that was asked for cannot come out, and that one that stops
// it was never defined.
func TestMetricsThatDoNotComeOut(t *testing.T) {
	rare := filepath.Join(t.TempDir(), "rare.csv")
	if err := os.WriteFile(rare, []byte("a,kind\n"+strings.Repeat("1,x\n", 60)+"10,y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := "data: {source: csv, path: " + rare + ", label: kind}\nmodel: {preset: mlp, hidden: [2]}\ntrain: {epochs: 5, batch: 4}\n"
	for want, set := range map[string][]string{
		"train.metrics: no samples validate, so it has no effect":  {"data.split=1", "train.metrics=[f1]"},
		"checkpoint.best: no samples validate":                     {"data.split=1", "checkpoint.best=val_f1"},
		"early stopping: val_auc was not defined for 2 epochs: ch": {"seed=2", "data.split=0.8", "early_stopping.metric=val_auc", "early_stopping.patience=2"},
	} {
		var said []string
		runtest.Train(t, runtest.Open(t, text, set...), berth.TrainOptions{Observer: &berth.Observer{Note: func(s string) { said = append(said, s) }}})
		if !strings.Contains(strings.Join(said, "\n"), want) {
			t.Errorf("%v: %q, want %q", set, said, want)
		}
	}
}
