package specs_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// rare is a table of n rows in which one of ten is of the class yes. The two classes overlap.
func rare(t *testing.T, n int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("x,y,sick\n")
	for i := range n {
		at, class := 0.0, "no"
		if i%10 == 0 {
			at, class = 0.8, "yes"
		}
		fmt.Fprintf(&b, "%.3f,%.3f,%s\n", r.NormFloat64()+at, r.NormFloat64()+at, class)
	}
	file := filepath.Join(t.TempDir(), "rare.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// openRare is a run on that table with a loss.
func openRare(t *testing.T, file, loss, more string) (*berth.Run, error) {
	t.Helper()
	text := "data: {source: csv, path: '" + file + "'}\nmodel: {preset: mlp, hidden: [6]}\ntrain: {epochs: 8, batch: 40, microbatches: 4, reduction: tree}\noptimizer: {name: adam, lr: 0.02, clip_norm: 1}\nloss: " + loss + "\n" + more
	c, err := configs.Parse("rare.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		return nil, err
	}
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err == nil {
		t.Cleanup(func() {
			if err := run.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return run, err
}

// Weights of classes raise the recall of a rare one. Balanced weights are those of the training
// part, by the formula n/(k·count).
func TestBalancedWeights(t *testing.T) {
	file := rare(t, 1000)
	recall := map[string]float64{}
	hashes := map[string]string{}
	var weights []float64
	for _, loss := range []string{"cross_entropy", "{name: cross_entropy, class_weights: balanced}", "{name: focal, class_weights: balanced}", "named"} {
		text := loss
		if loss == "named" {
			text = fmt.Sprintf("{name: cross_entropy, class_weights: {yes: %v, no: %v}}", weights[1], weights[0])
		}
		run, err := openRare(t, file, text, "")
		if err != nil {
			t.Fatal(err)
		}
		if info := run.Data.Info; strings.Contains(text, "balanced") {
			weights = info.Balanced
		} else if info.Balanced != nil {
			t.Errorf("%s: weights that nobody asked for", loss)
		}
		dir := t.TempDir()
		hashes[loss] = runtest.Train(t, run, berth.TrainOptions{Dir: dir}).WeightsSHA256
		e, err := run.Eval(t.Context(), berth.Weights{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		recall[loss] = e.Classes[1].Recall
		if e.Classes[1].Label != "yes" {
			t.Errorf("classes %+v", e.Classes)
		}
	}
	const balanced = "{name: cross_entropy, class_weights: balanced}"
	if !(recall[balanced] > recall["cross_entropy"]+0.3) || !(recall["{name: focal, class_weights: balanced}"] > recall["cross_entropy"]+0.3) {
		t.Errorf("recall of the rare class: %v", recall)
	}
	if no, yes := 800/(2*weights[0]), 800/(2*weights[1]); math.Abs(no+yes-800) > 1e-9 || yes < 60 || yes > 100 {
		t.Errorf("the training part has %v samples of no and %v of yes", no, yes)
	}
	if hashes["named"] != hashes[balanced] || hashes[balanced] == hashes["cross_entropy"] {
		t.Errorf("weights %v", hashes)
	}
}

// Weights of classes give the same bits after a resume, in stages, on replicas, with less memory
// and op by op.
func TestWeightsAreExact(t *testing.T) {
	testall.Long(t)
	const loss = "{name: cross_entropy, class_weights: balanced, label_smoothing: 0.1}"
	file := rare(t, 300)
	open := func(more string) *berth.Run {
		t.Helper()
		run, err := openRare(t, file, loss, more)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	want := runtest.Train(t, open(""), berth.TrainOptions{Dir: t.TempDir()})
	for _, way := range []string{
		"devices: {use: 'cpu:2'}\npartition: {replicas: 2}", "devices: {use: 'cpu:2'}\npartition: {stages: 2}", "devices: {op_by_op: plain}", "devices: {memory: 70%}",
	} {
		if got := runtest.Train(t, open(way), berth.TrainOptions{}); got.WeightsSHA256 != want.WeightsSHA256 || *got.Final.TrainLoss != *want.Final.TrainLoss {
			t.Errorf("%s: other weights, or the loss %v in place of %v", way, *got.Final.TrainLoss, *want.Final.TrainLoss)
		}
	}
	dir := t.TempDir()
	if _, err := open("").Train(t.Context(), berth.TrainOptions{Dir: dir, MaxSteps: 13}); err != nil {
		t.Fatal(err)
	}
	if got := runtest.Train(t, open(""), berth.TrainOptions{Dir: dir, Resume: true}); got.WeightsSHA256 != want.WeightsSHA256 {
		t.Error("a resumed run has other weights")
	}
	m, err := berth.OpenTrained(t.Context(), open("").Config, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	more, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(more, strings.Repeat("0.5,0.5,yes\n", 100)...), 0o666); err != nil {
		t.Fatal(err)
	}
	grown, err := berth.Open(t.Context(), open("").Config, berth.OpenOptions{Resume: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer grown.Close()
	if now, then := grown.Data.Info.Balanced, m.Info().Balanced; !slices.Equal(now, then) || slices.Equal(open("").Data.Info.Balanced, then) {
		t.Errorf("a run that goes on with more rows has the weights %v, and had %v", now, then)
	}
	if w := m.Info().Balanced; len(w) != 2 || math.Abs(1/w[0]+1/w[1]-2) > 1e-9 {
		t.Errorf("the checkpoint has the weights %v", w)
	}
}

// Weights of what the data is not are refused, with their line.
func TestWrongWeights(t *testing.T) {
	file := rare(t, 100)
	for loss, want := range map[string]string{
		"{name: cross_entropy, class_weights: {yess: 5}}":    `rare.yaml:5: these options cannot be used: loss.class_weights.yess: there is no class "yess": did you mean yes?`,
		"{name: focal, class_weights: {maybe: 5, yes: 1}}":   `there is no class "maybe": the classes are no, yes`,
		"{name: cross_entropy, class_weights: {yes: 0}}":     "rare.yaml:5: loss.class_weights.yes: got 0, expected a number of at least 1e-06 and at most 1e+06",
		"{name: cross_entropy, class_weights: {yes: 1e300}}": "rare.yaml:5: loss.class_weights.yes: got 1e300, expected a number of at least 1e-06 and at most 1e+06",
		"{name: cross_entropy, class_weights: ballanced}":    `got "ballanced", expected balanced, or a mapping of names, each with a number of at least 1e-06 and at most 1e+06`,
		"{name: cross_entropy, class_weights: {}}":           "got a mapping, expected balanced",
		"{name: cross_entropy, class_weights: [5, 1]}":       "got a list of 2, expected balanced",
		"{name: cross_entropy, class_weights: {yes: much}}":  "loss.class_weights.yes: got \"much\"",
		"{name: mse, class_weights: balanced}":               "class_weights",
		"{name: cross_entropy, class_weight: {yes: 5}}":      `did you mean "class_weights"?`,
		"{name: cross_entropy, class_weights: {yes: [5]}}\n": "loss.class_weights.yes: got a list of 1",
	} {
		if _, err := openRare(t, file, loss, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", loss, err, want)
		}
	}
	c, err := configs.Parse("text.yaml", []byte("data: {source: text, path: builtin:shakespeare}\nmodel: {preset: gpt}\nloss: {name: cross_entropy, class_weights: balanced}\n"), configs.Overlay{})
	if !errors.Is(err, configs.ErrInvalid) || !strings.Contains(err.Error(), "text.yaml:3: loss.class_weights: the classes of source text are the tokens of a text") {
		t.Errorf("%v, %v", c, err)
	}
	numbers, err := configs.Parse("n.yaml", []byte("data: digits\nmodel: {preset: mlp}\nloss: {name: cross_entropy, class_weights: {'10': 2}}\n"), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := berth.Open(t.Context(), numbers, berth.OpenOptions{}); err == nil || !strings.Contains(err.Error(), `there is no class "10"`) {
		t.Error(err)
	}
}
