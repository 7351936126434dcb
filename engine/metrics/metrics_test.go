package metrics_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/integrate"
	"gonum.org/v1/gonum/stat"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/golden"
)

// known is answers and the metrics that another program computes of them.
type known struct {
	Name          string
	Kind          string
	Probabilities [][]float64
	Targets       any
	Matrix        [][]int64
	Answers       [][]float64
	Numbers       [][]float64
	Unit          []float64
	Metrics       map[string]float64
}

// The metrics agree with those of scikit-learn.
func TestAgreesWithScikitLearn(t *testing.T) {
	text, err := os.ReadFile("testdata/scikit-learn.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []known
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, k := range cases {
		t.Run(k.Name, func(t *testing.T) {
			c, set := k.collect(t)
			for name, got := range valuesOf(t, set, c) {
				if want := k.Metrics[name]; math.Abs(got-want) > 1e-6 {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			if k.Matrix != nil && !reflect.DeepEqual(c.Matrix(), k.Matrix) {
				t.Errorf("confusion matrix %v, want %v", c.Matrix(), k.Matrix)
			}
		})
	}
}

// collect collects what the metrics of k need, with the reference kernels.
func (k *known) collect(t *testing.T) (*metrics.Collected, metrics.Set) {
	t.Helper()
	output, target, task := k.batch()
	var names []string
	for name := range k.Metrics {
		names = append(names, name)
	}
	set, err := metrics.Choose(task, names)
	if err != nil {
		t.Fatal(err)
	}
	c := &metrics.Collected{Task: task, Accuracy: k.Metrics["accuracy"]}
	for _, s := range set.Statistics {
		c.Set(s, run(t, task, output, target, s.Build, s.Cells))
	}
	if set.Scores {
		c.Scores = metrics.NewScores(task)
		cells := run(t, task, output, target, metrics.Cells, nil)
		var p []float32
		for _, row := range k.Probabilities {
			for _, x := range row {
				p = append(p, float32(x))
			}
		}
		var ids []int32
		for _, x := range cells {
			ids = append(ids, int32(x))
		}
		per := len(p) / len(ids)
		half := len(k.Probabilities) / 2 * max(1, task.Outputs)
		c.Scores.Add(p[:half*per], ids[:half])
		c.Scores.Add(p[half*per:], ids[half:])
	}
	for i := range task.Outputs {
		mean, sum := 0.0, 0.0
		for _, row := range k.Numbers {
			mean += row[i]
		}
		mean /= float64(len(k.Numbers))
		for _, row := range k.Numbers {
			sum += (row[i] - mean) * (row[i] - mean)
		}
		c.Spread = append(c.Spread, sum)
	}
	return c, set
}

// batch is the model's output, the targets and the task.
func (k *known) batch() (output, target ref.Array, t metrics.Task) {
	flat := func(rows [][]float64, shift float64) ref.Array {
		a := ref.New(shape.F32(len(rows), len(rows[0])))
		for i, row := range rows {
			for j, v := range row {
				a.F[i*len(row)+j] = v + shift
			}
		}
		return a
	}
	switch k.Kind {
	case "classes":
		output, target = flat(k.Probabilities, 0), ref.New(shape.I32(len(k.Probabilities)))
		for i, v := range k.Targets.([]any) {
			target.I[i] = int32(v.(float64))
		}
		return output, target, metrics.Task{Kind: metrics.Classes, Right: true, Classes: len(k.Probabilities[0]), Answers: int64(len(target.I))}
	case "bits":
		output = flat(k.Probabilities, -0.5)
		target = ref.New(output.Meta)
		for i, row := range k.Targets.([]any) {
			for j, v := range row.([]any) {
				target.F[i*len(row.([]any))+j] = v.(float64)
			}
		}
		return output, target, metrics.Task{Kind: metrics.Bits, Right: true, Outputs: len(k.Probabilities[0]), Answers: int64(len(target.F))}
	}
	output, target = flat(k.Answers, 0), flat(k.Numbers, 0)
	return output, target, metrics.Task{Kind: metrics.Numbers, Outputs: len(k.Unit), Answers: int64(len(target.F)), Scaling: &metrics.Scaling{Mean: make([]float64, len(k.Unit)), Std: k.Unit}}
}

// run computes a batch's numbers with the reference kernels, and counts those that are
// cells.
func run(t *testing.T, task metrics.Task, output, target ref.Array, build func(*graph.Builder, metrics.Batch) *graph.Value, cells func(metrics.Task) int) []float64 {
	t.Helper()
	b := graph.NewBuilder("metrics", 1)
	x := metrics.Batch{Task: task, Output: b.Input("output", output.Meta), Target: b.Input("target", target.Meta)}
	y := build(b, x)
	if cells != nil {
		y = b.One(ops.Tally{}, b.Input("counts", shape.I32(cells(task))), y)
	}
	b.Output("y", y)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	feed := map[*graph.Value]ref.Array{x.Output: output, x.Target: target}
	if cells != nil {
		feed[g.Find("counts")] = ref.New(shape.I32(cells(task)))
	}
	values, err := ref.Eval(g, feed)
	if err != nil {
		t.Fatal(err)
	}
	got := values[y]
	if got.I == nil {
		return got.F
	}
	var all []float64
	for _, v := range got.I {
		all = append(all, float64(v))
	}
	return all
}

// A statistic sees numbers as the data has them where it asks for them.
func TestUnscaledNumbersAreThoseOfTheData(t *testing.T) {
	for _, c := range []struct {
		scaling *metrics.Scaling
		want    []float64 // targets [-1 0; 1 2; 3 4]
	}{
		{nil, []float64{-1, 0, 1, 2, 3, 4}},
		{&metrics.Scaling{Mean: []float64{100}, Std: []float64{10}}, []float64{90, 100, 110, 120, 130, 140}},
		{&metrics.Scaling{Mean: []float64{100, 7}, Std: []float64{10, 0.5}}, []float64{90, 7, 110, 8, 130, 9}},
	} {
		task := metrics.Task{Kind: metrics.Numbers, Outputs: 2, Answers: 6, Scaling: c.scaling}
		target := ref.Floats([]float64{-1, 0, 1, 2, 3, 4}, 3, 2)
		got := run(t, task, ref.New(target.Meta), target, func(b *graph.Builder, x metrics.Batch) *graph.Value {
			return ops.Add(b, x.Unscaled(b, x.Target), x.Output)
		}, nil)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.scaling, got, c.want)
		}
	}
}

// The area under the curve is the share of pairs in their right order.
func TestAUCIsTheShareOfPairs(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 2 + rng.IntN(60)
		task := metrics.Task{Kind: metrics.Bits, Right: true, Outputs: 1, Answers: int64(n)}
		scores, cells := make([]float32, n), make([]int32, n)
		for i := range scores {
			scores[i], cells[i] = float32(rng.IntN(20))/19, int32(2*rng.IntN(2)+rng.IntN(2))
		}
		won, pairs := 0.0, 0.0
		for i := range n {
			for j := range n {
				if cells[i] < 2 || cells[j] >= 2 {
					continue
				}
				pairs++
				switch {
				case scores[i] > scores[j]:
					won++
				case scores[i] == scores[j]:
					won += 0.5
				}
			}
		}
		set, err := metrics.Choose(task, []string{"auc", "average_precision"})
		if err != nil {
			t.Fatal(err)
		}
		c := &metrics.Collected{Task: task, Scores: metrics.NewScores(task)}
		for range 2 { // the second time after Reset
			c.Scores.Reset()
			c.Scores.Add(scores, cells)
			got, want := valuesOf(t, set, c)["auc"], won/pairs
			if math.IsNaN(want) != math.IsNaN(got) || math.Abs(got-want) > 1e-12 {
				t.Errorf("seed %d: %v, want %v", seed, got, want)
			}
			if area := areaByGonum(scores, cells); math.Abs(got-area) > 1e-12 {
				t.Errorf("seed %d: %v, by gonum %v", seed, got, area)
			}
		}
	}
}

// areaByGonum is the area under the ROC curve that gonum draws.
func areaByGonum(scores []float32, cells []int32) float64 {
	y, truth := make([]float64, len(scores)), make([]bool, len(scores))
	for i, s := range scores {
		y[i], truth[i] = float64(s), cells[i] >= 2
	}
	stat.SortWeightedLabeled(y, truth, nil)
	hit, wrong, _ := stat.ROC(nil, y, truth, nil)
	return integrate.Trapezoidal(wrong, hit)
}

// Metrics of the positive class are of the second of two, or of the first if that is named. The
// others are means over both.
func TestPositiveClass(t *testing.T) {
	names := []string{"precision_positive", "recall_positive", "f1_positive", "f1", "auc", "average_precision"}
	for first, want := range map[bool][]float64{
		false: {2. / 4, 2. / 3, 4. / 7, (10./13 + 4./7) / 2, 4. / 6, (1 + 2./4) / 2},
		true:  {5. / 6, 5. / 7, 10. / 13, (10./13 + 4./7) / 2, 4. / 6, (1 + 2./3 + 3./4) / 3},
	} {
		task := metrics.Task{Kind: metrics.Classes, Classes: 2, Answers: 10, Right: true, First: first}
		set, err := metrics.Choose(task, names)
		if err != nil {
			t.Fatal(err)
		}
		c := &metrics.Collected{Task: task, Scores: metrics.NewScores(metrics.Task{Kind: metrics.Classes, Classes: 2, Answers: 10})}
		c.Set(set.Statistics[0], []float64{5, 2, 1, 2}) // rows are true classes
		// From the highest probability of the second class on, the true classes are 1, 0, 0, 1, 0.
		c.Scores.Add([]float32{0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.4, 0.6, 0.5, 0.5}, []int32{3, 1, 1, 3, 0})
		values := valuesOf(t, set, c)
		for i, name := range names {
			if math.Abs(values[name]-want[i]) > 1e-12 {
				t.Errorf("first is %v: %s is %v, want %v", first, name, values[name], want[i])
			}
		}
	}
	three := metrics.Task{Kind: metrics.Classes, Classes: 3, Answers: 10, Right: true}
	if _, err := metrics.Choose(three, names[:1]); err == nil || !strings.Contains(err.Error(), "it is of the positive one of two classes, and there are 3 classes") {
		t.Error(err)
	}
}

// A class that is absent has no curves; a mean over the classes has no value then.
func TestAbsentClassHasNoCurves(t *testing.T) {
	task := metrics.Task{Kind: metrics.Classes, Right: true, Classes: 3, Answers: 2}
	set, err := metrics.Choose(task, []string{"auc", "average_precision", "auc_class_0", "auc_class_2", "average_precision_class_2"})
	if err != nil {
		t.Fatal(err)
	}
	c := &metrics.Collected{Task: task, Scores: metrics.NewScores(task)}
	c.Scores.Add([]float32{0.5, 0.3, 0.2, 0.1, 0.8, 0.1}, []int32{0*3 + 0, 1*3 + 1})
	for name, v := range valuesOf(t, set, c) {
		if math.IsNaN(v) == (name == "auc_class_0") {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// Labels that are each 0 or 1 have the mean of those whose curve is defined: one that is always 0 has
// none.
func TestConstantLabelHasNoCurve(t *testing.T) {
	task := metrics.Task{Kind: metrics.Bits, Right: true, Outputs: 2, Answers: 4}
	set, err := metrics.Choose(task, []string{"auc", "average_precision"})
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		cells []int32
		want  float64
	}{
		"one is constant": {[]int32{0, 0, 0, 0, 2, 0, 2, 0}, 1},
		"both are":        {[]int32{0, 0, 0, 0, 0, 0, 0, 0}, math.NaN()},
	} {
		c := &metrics.Collected{Task: task, Scores: metrics.NewScores(task)}
		c.Scores.Add([]float32{0.1, 0.5, 0.2, 0.6, 0.8, 0.7, 0.9, 0.1}, x.cells)
		for metric, v := range valuesOf(t, set, c) {
			if v != x.want && !(math.IsNaN(v) && math.IsNaN(x.want)) {
				t.Errorf("%s: %s is %v, want %v", name, metric, v, x.want)
			}
		}
	}
}

func TestTopK(t *testing.T) {
	output := ref.Floats([]float64{1, 3, 2, 2, 2, 1, 0, 1, 5}, 3, 3)
	target := ref.Ints([]int32{0, 1, 2}, 3) // ranks 2, 1 (the first of equals comes first) and 0
	task := metrics.Task{Kind: metrics.Classes, Right: true, Classes: 3, Answers: 3}
	for name, want := range map[string]float64{"top_1": 1. / 3, "top_2": 2. / 3} {
		set, err := metrics.Choose(task, []string{name})
		if err != nil {
			t.Fatal(err)
		}
		c := &metrics.Collected{Task: task}
		s := set.Statistics[0]
		c.Set(s, run(t, task, output, target, s.Build, s.Cells))
		if got := valuesOf(t, set, c)[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestText(t *testing.T) {
	task := metrics.Task{Kind: metrics.Classes, Right: true, Classes: 65, Answers: 100, Text: true}
	all := allOf(t, task)
	if want := []string{"accuracy", "perplexity", "bits_per_byte", "top_5"}; !slices.Equal(all, want) {
		t.Errorf("a text has %v, want %v", all, want)
	}
	set, err := metrics.Choose(task, []string{"perplexity", "bits_per_byte"})
	if err != nil {
		t.Fatal(err)
	}
	got := valuesOf(t, set, &metrics.Collected{Task: task, Loss: math.Ln2, Bytes: 50})
	if math.Abs(got["perplexity"]-2) > 1e-12 || got["bits_per_byte"] != 2 {
		t.Errorf("metrics %v", got)
	}
}

// A metric that a task cannot have is refused by name, with the cause.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		task metrics.Task
		name string
		want string
	}{
		{metrics.Task{Kind: metrics.Numbers, Outputs: 1}, "f1", "f1 cannot be computed for the outputs of this model"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 3}, "perplexity", "perplexity cannot be computed for the outputs of this model"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 1001}, "f1", "f1: a confusion matrix has at most 1,000 classes, but the model has 1,001"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 3}, "f1_class_3", "f1_class_3: there are 3 classes, numbered from 0"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 5}, "top_5", "top_5: it is always 1 with 5 classes"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 1}, "auc", "auc: the metric needs 2 to 46,340 classes"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 50_000, Answers: 9}, "auc_class_7", "auc_class_7: the metric needs 2 to 46,340 classes"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 10, Answers: 10_000_001}, "auc", "auc takes up to 100,000,000 scores, and there are 100,000,010"},
		{metrics.Task{Kind: metrics.Bits, Right: true, Outputs: 1, Answers: 100_000_001}, "average_precision", "average_precision takes up to 100,000,000 scores"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 3, Answers: 1 << 31}, "recall", "recall counts up to 2,147,483,647 answers"},
	} {
		_, err := metrics.Choose(c.task, []string{c.name})
		if !errors.Is(err, metrics.ErrMetric) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// All leaves out what takes long, what is there already, and what does not fit.
func TestAll(t *testing.T) {
	for _, c := range []struct {
		task         metrics.Task
		has, without string
	}{
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 3, Answers: 100}, "accuracy precision recall f1 confusion auc average_precision", "f1_micro top_5 r2 perplexity"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 10, Answers: 1_000_001}, "accuracy precision recall f1 confusion top_5", "auc average_precision"},
		{metrics.Task{Kind: metrics.Classes, Right: true, Classes: 2000, Answers: 100}, "accuracy auc average_precision top_5", "precision recall f1 confusion"},
		{metrics.Task{Kind: metrics.Bits, Right: true, Outputs: 3, Answers: 100}, "accuracy precision recall f1 precision_micro recall_micro f1_micro confusion auc average_precision", "top_5 rmse"},
		{metrics.Task{Kind: metrics.Numbers, Outputs: 2, Answers: 100}, "rmse mae r2", "accuracy f1 perplexity"},
	} {
		got := allOf(t, c.task)
		for _, name := range strings.Fields(c.has) {
			if !slices.Contains(got, name) {
				t.Errorf("%+v: %s, without %s", c.task, got, name)
			}
		}
		for _, name := range strings.Fields(c.without) {
			if slices.Contains(got, name) {
				t.Errorf("%+v: %s, with %s", c.task, got, name)
			}
		}
	}
}

// Names that have no metric: each differs from one that has.
func TestUnknownNames(t *testing.T) {
	for _, name := range []string{"", "F1", "top_", "top_0", "top_01", "top_-1", "f1_class_", "f1_class_x", "confusion_class_1"} {
		if m, ok := metrics.Find(name); ok {
			t.Errorf("%q is %s", name, m.Name)
		}
	}
	for _, name := range metrics.Names(metrics.Task{}) {
		if metrics.Doc(name) == "" {
			t.Errorf("%s has no sentence", name)
		}
		if _, ok := metrics.Find(strings.Replace(name, "N", "3", 1)); !ok {
			t.Errorf("%s is not found", name)
		}
	}
}

// The page of metrics has a row for each: go test ./engine/metrics -run Page -update writes
// them.
func TestPage(t *testing.T) {
	const path, head, tail = "../../docs/metrics.md", "| metric | of | meaning |\n|---|---|---|\n", "\nThe values agree"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), head)
	_, after, alike := strings.Cut(rest, tail)
	if !ok || !alike {
		t.Fatalf("%s has no table of metrics between %q and %q", path, head, tail)
	}
	var rows strings.Builder
	for _, name := range metrics.Names(metrics.Task{}) {
		m, _ := metrics.Find(strings.Replace(name, "N", "1", 1))
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", name, judged(m), metrics.Doc(name))
	}
	golden.Check(t, path, before+head+rows.String()+tail+after)
}

// judged is the answers that a metric judges, in words.
func judged(m metrics.Metric) string {
	if m.Texts {
		return "texts"
	}
	var words []string
	for i, word := range []string{"classes", "bits", "numbers"} {
		kind := metrics.Classes + metrics.Kind(i)
		if m.Fits(metrics.Task{Kind: kind, Right: kind != metrics.Numbers}) {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

// A name whose fields would mean two things is a mistake of the program.
func TestRegisterRefusesTakenNames(t *testing.T) {
	for _, name := range []string{"loss", "s", "all", "auto", "f1", "top_x"} {
		func() {
			defer func() {
				if x, _ := recover().(string); !strings.Contains(x, "register metric "+name) || !strings.Contains(x, "choose another") {
					t.Errorf("%s: %q", name, x)
				}
			}()
			metrics.Register(metrics.Metric{Name: name, Version: 1, Value: func(*metrics.Collected) float64 { return 0 }})
		}()
	}
}

// valuesOf are the values of metrics of which none panics.
func valuesOf(t *testing.T, set metrics.Set, c *metrics.Collected) metrics.Values {
	t.Helper()
	values, err := set.Values(c)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// allOf are all metrics of a task.
func allOf(t *testing.T, task metrics.Task) []string {
	t.Helper()
	names, err := metrics.All(task)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
