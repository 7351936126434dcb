package specs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// homes is a table with words, two numbers to predict and two labels that are yes or no.
func homes(t *testing.T, n int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	b.WriteString("area,kind,price,rent,garden,lift\n")
	for range n {
		area, kind, more := 20+180*r.Float64(), "flat", 1.0
		if r.IntN(2) == 0 {
			kind, more = "house", 1.3
		}
		yes := map[bool]string{true: "yes", false: "no"}
		fmt.Fprintf(&b, "%.1f,%s,%.0f,%.1f,%s,%s\n", area, kind, 4000*area*more+9000*r.NormFloat64(), 11*area+40*r.NormFloat64(), yes[kind == "house"], yes[area > 150 && kind == "flat"])
	}
	file := filepath.Join(t.TempDir(), "homes.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// openHomes is a run on that table.
func openHomes(t *testing.T, file, data, more string) *berth.Run {
	t.Helper()
	text := "data: {source: csv, path: '" + file + "', " + data + "}\nmodel: {preset: mlp, hidden: [12]}\ntrain: {epochs: 12, batch: 40, microbatches: 4, reduction: tree}\noptimizer: {name: adam, lr: 0.03}\n" + more
	c, err := configs.Parse("homes.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	return run
}

const (
	twoNumbers = "label: [price, rent], task: regression, ignore: [garden, lift]"
	twoBits    = "label: [garden, lift], task: multilabel, ignore: [price, rent]"
	twoWeights = "loss: {name: bce, positive_weights: balanced}\n"
)

// Several labels give the same bits after a resume, in stages, on replicas, with less memory and op
// by op.
func TestLabelsAreExact(t *testing.T) {
	testall.Long(t)
	file := homes(t, 300)
	for _, c := range [][2]string{{twoNumbers, ""}, {twoBits, twoWeights}} {
		want := runtest.Train(t, openHomes(t, file, c[0], c[1]), berth.TrainOptions{Dir: t.TempDir(), AssertResident: true})
		for _, way := range []string{
			"devices: {use: 'cpu:2'}\npartition: {replicas: 2}", "devices: {use: 'cpu:2'}\npartition: {stages: 2}", "devices: {op_by_op: plain}", "devices: {memory: 70%}",
		} {
			got := runtest.Train(t, openHomes(t, file, c[0], c[1]+way), berth.TrainOptions{})
			if got.WeightsSHA256 != want.WeightsSHA256 || !reflect.DeepEqual(got.Final.Metrics, want.Final.Metrics) {
				t.Errorf("%s, %s: other weights, or the metrics %v in place of %v", c[0], way, got.Final.Metrics, want.Final.Metrics)
			}
		}
		dir := t.TempDir()
		if _, err := openHomes(t, file, c[0], c[1]).Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 13}); err != nil {
			t.Fatal(err)
		}
		if got := runtest.Train(t, openHomes(t, file, c[0], c[1]), berth.TrainOptions{Dir: dir, Resume: true}); got.WeightsSHA256 != want.WeightsSHA256 {
			t.Errorf("%s: a resumed run has other weights", c[0])
		}
	}
}

// Several numbers are judged one by one, in their own units, and answers have them by name.
func TestSeveralNumbersAreAnswered(t *testing.T) {
	file, dir := homes(t, 400), t.TempDir()
	run := openHomes(t, file, twoNumbers, "")
	runtest.Train(t, run, berth.TrainOptions{Dir: dir})
	e, err := run.Eval(t.Context(), berth.Weights{Dir: dir})
	if err != nil || len(e.Labels) != 2 {
		t.Fatalf("%+v, %v", e, err)
	}
	price, rent := e.Labels[0], e.Labels[1]
	if price.Label != "price" || rent.Label != "rent" || price.RMSE < 5000 || price.RMSE > 60000 || rent.RMSE < 20 || rent.RMSE > 200 {
		t.Errorf("%+v", e.Labels)
	}
	if both := math.Sqrt((price.RMSE*price.RMSE + rent.RMSE*rent.RMSE) / 2); math.Abs(both-e.Metrics["rmse"]) > 1e-6*both {
		t.Errorf("rmse %v of %v", e.Metrics["rmse"], e.Labels)
	}
	if mean := (*price.R2 + *rent.R2) / 2; math.Abs(mean-e.Metrics["r2"]) > 1e-9 || math.Abs((price.MAE+rent.MAE)/2-e.Metrics["mae"]) > 1e-6*price.MAE {
		t.Errorf("r2 %v, mae %v of %v", e.Metrics["r2"], e.Metrics["mae"], e.Labels)
	}
	m, err := berth.OpenTrained(t.Context(), run.Config, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	rows := []map[string]any{{"area": 100, "kind": "flat"}}
	if _, err := m.PredictRows(context.Background(), rows, func(p berth.Prediction) error {
		if !slices.Equal(p.Names, []string{"price", "rent"}) || math.Abs(float64(p.Values[0])-400000) > 60000 || math.Abs(float64(p.Values[1])-1100) > 200 {
			t.Errorf("%+v", p)
		}
		text, err := json.Marshal(p)
		if want := fmt.Sprintf(`"labels":{"price":%v,"rent":%v}`, p.Values[0], p.Values[1]); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s, want %s", text, want)
		}
		var back berth.Prediction
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, p) {
			t.Errorf("%+v, %v", back, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Labels that are yes or no are judged one by one, and an answer has the probability of each.
func TestMultilabelIsAnswered(t *testing.T) {
	file, dir := homes(t, 400), t.TempDir()
	run := openHomes(t, file, twoBits, "checkpoint: {best: val_f1_class_1}")
	if run.Config.Loss != "bce" {
		t.Errorf("the loss is %s", run.Config.Loss)
	}
	runtest.Train(t, run, berth.TrainOptions{Dir: dir})
	e, err := run.Eval(t.Context(), berth.Weights{Dir: dir})
	if err != nil || len(e.Classes) != 2 || e.Average != "macro" || e.Positive != "" {
		t.Fatalf("%+v, %v", e, err)
	}
	garden, lift := e.Classes[0], e.Classes[1]
	if garden.Label != "garden" || lift.Label != "lift" || *garden.Accuracy < 0.95 || math.Abs((*garden.Accuracy+*lift.Accuracy)/2-*e.Accuracy) > 1e-12 {
		t.Errorf("%+v, accuracy %v", e.Classes, *e.Accuracy)
	}
	if _, err := run.Predict(t.Context(), berth.Weights{Dir: dir}, "", func(p berth.Prediction) error {
		if p.Class != nil || len(p.Values) != 2 || !slices.Equal(p.Names, []string{"garden", "lift"}) || p.Values[0] < 0 || p.Values[0] > 1 {
			t.Errorf("%+v", p)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Weights of the ones of a rare label raise its recall.
func TestPositiveWeights(t *testing.T) {
	file := rare(t, 1000)
	recall := map[string]float64{}
	for _, loss := range []string{"bce", "{name: bce, positive_weights: balanced}", "{name: bce, positive_weights: {sick: 8}}"} {
		dir := t.TempDir()
		c, err := configs.Parse("rare.yaml", []byte("data: {source: csv, path: '"+file+"', task: multilabel}\nmodel: {preset: mlp, hidden: [6]}\ntrain: {epochs: 8, batch: 40}\noptimizer: {name: adam, lr: 0.02}\nloss: "+loss), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		runtest.Train(t, run, berth.TrainOptions{Dir: dir})
		e, err := run.Eval(t.Context(), berth.Weights{Dir: dir})
		if err != nil || e.Average != "binary" || e.Classes[0].Label != "sick" {
			t.Fatalf("%+v, %v", e, err)
		}
		recall[loss] = e.Classes[0].Recall
	}
	if plain := recall["bce"]; !(recall["{name: bce, positive_weights: balanced}"] > plain+0.3) || !(recall["{name: bce, positive_weights: {sick: 8}}"] > plain+0.3) {
		t.Errorf("recall of the rare label: %v", recall)
	}
}

// Labels that do not go with the task, and weights of other labels, are refused with their line.
func TestWrongLabels(t *testing.T) {
	file := homes(t, 60)
	for data, want := range map[string]string{
		"label: [price, rent]":                                                                     "homes.yaml:1: data.label: 2 labels, but data.task is classification, which has one; add data.task: regression",
		"label: [price, rent], task: multilabel":                                                   "is neither 0 nor 1, nor a word for one",
		"label: []":                                                                                "data.label: got an empty list, expected a column's name",
		"label: [price, price], task: regression":                                                  `label column "price" is named twice`,
		"label: [price, rentt], task: regression":                                                  `there is no label column "rentt"`,
		"label: [garden, lift], task: multilabels":                                                 `did you mean "multilabel"?`,
		"label: [price, rent], task: regression, positive: x":                                      "data.positive: it names one of two classes",
		"label: kind, positive: villa":                                                             `homes.yaml:1: these options cannot be used: data.positive: there is no class "villa": the classes are flat, house`,
		"label: [garden, lift], task: multilabel}\nloss: {name: mse":                               "mse does not fit data.task: multilabel, whose labels are 0 or 1; use bce",
		"label: garden, task: multilabel}\nloss: {name: cross_entropy":                             "cross_entropy does not fit data.task: multilabel",
		"label: [garden, lift], task: multilabel}\nloss: {name: bce, positive_weights: {liftt: 2}": `homes.yaml:2: these options cannot be used: loss.positive_weights.liftt: there is no label "liftt": did you mean lift?`,
	} {
		c, err := configs.Parse("homes.yaml", []byte("data: {source: csv, path: '"+file+"', "+data+"}\nmodel: {preset: mlp}\n"), configs.Overlay{})
		if err == nil {
			var run *berth.Run
			if run, err = berth.Open(t.Context(), c, berth.OpenOptions{}); err == nil {
				run.Close()
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
}
