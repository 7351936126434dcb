package outside_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
)

const config = `
data: digits
model:
  layers:
    - flatten
    - {type: dense, units: 24, name: first}
    - swish2: {beta: 1.5}
    - gated: {units: 16, rate: 0.1, name: gate}
    - swish2
    - {type: dense, units: 10, name: last}
loss: {name: smoothed, eps: 0.2}
train: {epochs: 1, batch: 240, microbatches: 4, reduction: tree}
optimizer: {name: signum, lr: 0.01, weight_decay: 0.01, clip_norm: 1, no_decay: [bias, norm]}
schedule: {name: polynomial, power: 1.5, warmup: 2}
`

func load(t *testing.T, text string, set ...string) *configs.Config {
	t.Helper()
	c, err := configs.Parse("own.yaml", []byte(text), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// train trains in a folder, and gives the report.
func train(t *testing.T, c *configs.Config, o berth.TrainOptions) (*berth.Report, error) {
	t.Helper()
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	}()
	return run.Train(t.Context(), o)
}

func TestSameWeightsHoweverTheModelIsCut(t *testing.T) {
	sameWeights(t, config, []string{"devices=cpu:2", "partition.recompute=cheap"}, []string{"devices=cpu:1", "devices.memory=60%"})
}

func TestSameWeightsWithOddStates(t *testing.T) {
	const signum = "{name: signum, lr: 0.01, weight_decay: 0.01, clip_norm: 1, no_decay: [bias, norm]}"
	sameWeights(t, strings.Replace(config, signum, "odd", 1))
}

// An optimizer of ops keeps the same average however its update is shared out. Validation is with it.
func TestSameAverageHoweverTheUpdateIsShared(t *testing.T) {
	sameWeights(t, strings.Replace(config, "reduction: tree", "reduction: tree, ema: 0.8", 1), []string{"devices=cpu:2", "partition.stages=2"})
}

// sameWeights trains a config in some ways, and in those that are always tried.
func sameWeights(t *testing.T, config string, ways ...[]string) {
	want := ""
	loss := 0.0
	ways = append(ways, []string{"devices=cpu:1"}, []string{"devices=cpu:2", "partition.replicas=2", "partition.shard=optimizer"})
	if testall.Wanted() {
		ways = append(ways, []string{"devices=cpu:1", "devices.threads=2"}, []string{"devices=cpu:2"}, []string{"devices=cpu:1", "devices.memory=60%"},
			[]string{"devices=cpu:2", "partition.replicas=2"}, []string{"devices=cpu:1", "partition.recompute=block"})
	}
	for _, set := range ways {
		r, err := train(t, load(t, config, set...), berth.TrainOptions{Dir: t.TempDir()})
		if err != nil {
			t.Fatalf("%v: %v", set, err)
		}
		if want == "" {
			want, loss = r.WeightsSHA256, *r.Final.ValLoss
		}
		if r.WeightsSHA256 != want {
			t.Errorf("%v: other weights than on one device", set)
		}
		if *r.Final.ValLoss != loss {
			t.Errorf("%v: the validation loss is %v, on one device %v", set, *r.Final.ValLoss, loss)
		}
	}
}

func TestItLearnsAndGoesOn(t *testing.T) {
	whole, parts := t.TempDir(), t.TempDir()
	c := load(t, config, "train.epochs=4")
	r, err := train(t, c, berth.TrainOptions{Dir: whole})
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Final.ValAccuracy; v == nil || *v < 0.5 {
		t.Errorf("the validation accuracy is %v", *v)
	}
	if _, err := train(t, c, berth.TrainOptions{Dir: parts, MaxSteps: 7}); err != nil && !errors.Is(err, berth.ErrStopped) {
		t.Fatal(err)
	}
	again, err := train(t, c, berth.TrainOptions{Dir: parts, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	if again.WeightsSHA256 != r.WeightsSHA256 {
		t.Error("a resumed run has other weights")
	}
	trained, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: whole}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer trained.Close()
	e, err := trained.Eval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Final.ValLoss == nil || e.Loss != *r.Final.ValLoss {
		t.Errorf("eval's loss is %v, training's validation %v", e.Loss, r.Final.ValLoss)
	}
}

func TestOtherVersionsAreRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := train(t, load(t, config), berth.TrainOptions{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, now, want string }{
		{"version: 3", "version: 2", "config.yaml:LINE: model.layers[2].version: this run uses the layer swish2 version 2; this program has version 3"},
		{"type: swish2", "type: swish9", "config.yaml:LINE: model.layers[2].type: this run uses the layer swish9 version 3, which this program does not have"},
		{"name: signum", "name: tiger", "config.yaml:LINE: optimizer.name: this run uses the optimizer tiger version 1, which this program does not have"},
		{"name: smoothed", "name: rough", "config.yaml:LINE: loss.name: this run uses the loss rough version 1, which this program does not have"},
		{"name: polynomial", "name: exponential", "config.yaml:LINE: schedule.name: this run uses the schedule exponential version 1, which this program does not have"},
	} {
		before, _, ok := strings.Cut(string(text), c.old)
		if !ok {
			t.Fatalf("config.yaml has no %q:\n%s", c.old, text)
		}
		_, err := configs.Parse("config.yaml", []byte(strings.Replace(string(text), c.old, c.now, 1)), configs.Overlay{})
		want := strings.Replace(c.want, "LINE", fmt.Sprint(1+strings.Count(before, "\n")), 1)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, configs.ErrInvalid) {
			t.Errorf("got      %v\nexpected %s", err, want)
		}
	}
}

func TestMistakesInKeysAreNamed(t *testing.T) {
	checkPanics = true
	defer func() { checkPanics = false }()
	for _, c := range []struct{ old, now, want string }{
		{"swish2: {beta: 1.5}", "swish2: {bta: 1.5}", `own.yaml:6: model.layers[2].bta: unknown key where type is swish2; did you mean "beta"?`},
		{"swish2: {beta: 1.5}", "swish2: {beta: 11}", "own.yaml:6: model.layers[2].beta: got 11, expected a number of at least 0 and at most 10"},
		{"swish2: {beta: 1.5}", "swish2: {beta: 7}", "own.yaml:6: model.layers[2]: swish2: beta may be anything but 7"},
		{"- swish2\n", "- swish3\n", `own.yaml:8: model.layers[4].type: got "swish3", expected one of `},
		{"units: 16, rate", "units: many, rate", `own.yaml:7: model.layers[3].units: got "many", expected a whole number of at least 1`},
		{"units: 16, rate: 0.1", "rate: 0.1", `own.yaml:7: model.layers[3].units: missing, expected a whole number of at least 1: outputs`},
		{"gated: {units: 16, rate: 0.1, name: gate}", "halved", `own.yaml:7: layer 3 (halved "halved_1"): its function gives`},
		{"- swish2\n", "- build_panics\n", `own.yaml:8: layer 6 (build_panics "build_panics_1"): its function panicked: nobody builds this`},
		{"- swish2\n", "- fails: {in: Infer}\n", `own.yaml:8: layer 6 (fails "fails_1"): the op fails panicked in Infer: no Infer`},
		{"- swish2\n", "- fails: {in: Cost}\n", `own.yaml:8: layer 6 (fails "fails_1"): the op fails panicked in Cost: no Cost`},
		{"- swish2\n", "- fails: {in: Grad}\n", `own.yaml:8: layer 6 (fails "fails_1"): the op fails panicked in Grad: no Grad`},
		{"- swish2\n", "- fails: {in: no outputs}\n", `own.yaml:8: layer 6 (fails "fails_1"): the op fails: its Infer gives no outputs: give at least one`},
		{"- swish2\n", "- fails: {in: no gradients}\n", `own.yaml:8: layer 6 (fails "fails_1"): the op fails: its Grad gives 0 values for 1 inputs: give one for each`},
		{"- swish2\n", "- fails: {in: Check}\n", `own.yaml:8: model.layers[4]: fails: the method Check of its keys panicked: no check`},
		{"epochs: 1,", "epochs: 1, metrics: [fails_check],", "train.metrics: the metric fails_check version 2 panicked in Check: no check"},
		{"name: polynomial, power: 1.5", "name: broken", "schedule broken gives the rate NaN at step 3 of 4: it must be a number"},
		{"name: polynomial, power: 1.5", "name: broken, panics: true", "schedule broken panicked at step 2 of 4: no rate"},
		{"name: signum, lr: 0.01, weight_decay: 0.01", "name: forgetful, lr: 0.01, panics: true", "train: optimizer: forgetful panicked at the update of first.weight: no update"},
		{"name: signum, lr: 0.01, weight_decay: 0.01", "name: forgetful, lr: 0.01", "train: optimizer: forgetful declares the state first.weight/idle and does not set it"},
		{"eps: 0.2", "eps: 2", "own.yaml:10: loss.eps: got 2, expected a number of at least 0 and at most 1"},
		{"loss: {name: smoothed, eps: 0.2}", "loss: smoothd", `own.yaml:10: loss: got "smoothd", expected one of cross_entropy, focal, mse, l1, huber, bce, charbonnier, smoothed; did you mean "smoothed"?`},
		{"name: signum", "name: signm", `own.yaml:12: optimizer.name: got "signm", expected one of 9 words (` + "`trainer configs reference`" + ` lists them); did you mean "signum"?`},
		{"power: 1.5", "gamma: 1.5", "own.yaml:13: schedule.gamma: goes with name: step, but name is polynomial"},
	} {
		if !strings.Contains(config, c.old) {
			t.Fatalf("no %q", c.old)
		}
		x, err := configs.Parse("own.yaml", []byte(strings.TrimPrefix(strings.Replace(config, c.old, c.now, 1), "\n")), configs.Overlay{})
		if err == nil {
			_, err = berth.Open(t.Context(), x, berth.OpenOptions{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !berth.IsUsage(err) {
			t.Errorf("got      %v\nexpected %s", err, c.want)
		}
		checkPanicPosition(t, err)
	}
}

// panicPosition is what follows the text of a panic of this package's functions.
var panicPosition = regexp.MustCompile(`^.* panicked.* \(at /\S*/internal/outside/\w+_test\.go:\d+\)`)

// checkPanicPosition wants the error of a panic on one line, which has the line that
// panicked.
func checkPanicPosition(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), " panicked") {
		return
	}
	if text := err.Error(); !panicPosition.MatchString(text) || strings.Contains(text, "\n") {
		t.Errorf("the error of a panic is not one line with its position: %v", err)
	}
}

func TestConfigKeepsKeysAndVersions(t *testing.T) {
	c := load(t, config)
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"beta: 1.5\n", "version: 3\n", "units: 16\n", "tags: []\n", "eps: 0.2\n", "beta: 0.9\n", "power: 1.5\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	again, err := configs.Parse("again", text, configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	if text2, err := again.YAML(); err != nil || string(text2) != string(text) {
		t.Errorf("written twice: %v\n%s\n%s", err, text, text2)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if k := c.Model.Layers[2].Keys.(*SwishKeys); k.Beta != 1.5 {
		t.Errorf("beta is %v", k.Beta)
	}
	if k := c.Model.Layers[4].Keys.(*SwishKeys); k.Beta != 1 {
		t.Errorf("beta is %v by default", k.Beta)
	}
	if c := load(t, strings.Replace(config, "{name: smoothed, eps: 0.2}", "cross_entropy", 1), "loss={name: smoothed, eps: 0.3}"); c.Loss != "smoothed" || c.LossKeys.Keys.(*SmoothKeys).Eps != 0.3 {
		t.Errorf("the loss is %s of %v", c.Loss, c.LossKeys.Keys)
	}
	other := load(t, config, "schedule.power=3")
	now, err := other.YAML()
	if err != nil {
		t.Fatal(err)
	}
	changes, err := configs.Changes(text, now)
	if err != nil || configs.SummaryOfChanges(changes) != "schedule.power was 1.5, is 3" {
		t.Errorf("changes are %v, %v", changes, err)
	}
}

func TestAnOwnMetric(t *testing.T) {
	dir := t.TempDir()
	c := load(t, strings.Replace(config, "epochs: 1,", "epochs: 3, metrics: [confidence, f1],", 1)+
		"checkpoint: {best: val_confidence}\nearly_stopping: {metric: val_confidence, patience: 1}\n", "partition.replicas=2", "devices=cpu:2")
	r, err := train(t, c, berth.TrainOptions{Dir: dir}) // it ends early: confidence rises, and lower is better
	if err != nil {
		t.Fatal(err)
	}
	if r.Epochs != 2 {
		t.Errorf("training ended after %d epochs, expected 2", r.Epochs)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(lines), `"val_confidence":0.`) {
		t.Errorf("metrics.jsonl has no val_confidence:\n%s", lines)
	}
	trained, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer trained.Close()
	e, err := trained.Eval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Metrics["confidence"]; !(v >= 0.1 && v <= 1) {
		t.Errorf("eval's metrics are %v", e.Metrics)
	}
	_, err = configs.Parse("own.yaml", []byte(strings.Replace(config, "epochs: 1,", "epochs: 1, metrics: [confidense],", 1)), configs.Overlay{})
	if err == nil || !strings.Contains(err.Error(), `did you mean "confidence"?`) {
		t.Errorf("got %v", err)
	}
}

func TestALossOfNumbers(t *testing.T) {
	dir := t.TempDir()
	rows := "x,y\n"
	for i := range 80 {
		rows += fmt.Sprintf("%d,%d\n", i, 3000+7*i)
	}
	path := filepath.Join(dir, "line.csv")
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, "data: {source: csv, path: "+path+", label: y, task: regression}\nmodel: {layers: [{type: dense, units: 1}]}\n"+
		"loss: {name: charbonnier, delta: 0.1}\ntrain: {steps: 120, boundary: 120, batch: 16}\noptimizer: {name: adam, lr: 0.1}\n")
	r, err := train(t, c, berth.TrainOptions{Dir: filepath.Join(dir, "run")})
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Final.ValLoss; v == nil || *v < 0.1 || *v > 0.15 || r.Final.ValAccuracy != nil {
		t.Errorf("the loss is %v, of at least delta", *v)
	}
	_, err = configs.Parse("own.yaml", []byte("data: digits\nmodel: {layers: [flatten, {type: dense, units: 1}]}\nloss: charbonnier\n"), configs.Overlay{})
	if err == nil || !strings.Contains(err.Error(), "own.yaml:3: loss: charbonnier does not fit source digits, whose targets are classes; use cross_entropy") {
		t.Errorf("got %v", err)
	}
}

// Metrics of numbers see the data's own numbers, and get what they ask for though r2 is not
// computed.
func TestAMetricOfNumbers(t *testing.T) {
	dir := t.TempDir()
	rows := "x,y\n"
	for i := range 80 {
		rows += fmt.Sprintf("%d,%d\n", i, 3000+700*(i%2))
	}
	path := filepath.Join(dir, "two.csv")
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, "data: {source: csv, path: "+path+", label: y, task: regression}\nmodel: {layers: [{type: dense, units: 1}]}\n"+
		"train: {epochs: 1, batch: 16, metrics: [target_mean, target_variance]}\n")
	r, err := train(t, c, berth.TrainOptions{Dir: filepath.Join(dir, "run")})
	if err != nil {
		t.Fatal(err)
	}
	mean := r.Final.Metrics["target_mean"]
	share := (mean - 3000) / 700 // of the validation part that has the larger number
	want := 700 * 700 * share * (1 - share)
	if variance := r.Final.Metrics["target_variance"]; share <= 0 || share >= 1 || math.Abs(variance-want) > 1 {
		t.Errorf("the targets have mean %v and variance %v, want %v", mean, variance, want)
	}
}

func TestAPanicEndsTheRun(t *testing.T) {
	for _, devices := range []string{"cpu:1", "cpu:2"} {
		c := load(t, strings.Replace(config, "- swish2: {beta: 1.5}\n", "- panics\n", 1), "devices="+devices)
		_, err := train(t, c, berth.TrainOptions{Dir: t.TempDir()})
		if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `: layer 2 (panics "panics_1"): the op panics panicked: runtime error: index out of range`) {
			t.Errorf("%s: got %v", devices, err)
		}
		checkPanicPosition(t, err)
	}
}

// A metric that panics ends the run with an error that names it, and the run resumes
// without it.
func TestAPanicOfAMetricEndsTheRun(t *testing.T) {
	dir := t.TempDir()
	for metric, want := range map[string]string{
		"fails_value": "the metric fails_value version 2 panicked in Value: no value",
		"fails_build": "the statistic unbuilt panicked: no numbers",
	} {
		c := load(t, strings.Replace(config, "epochs: 1,", "epochs: 2, metrics: ["+metric+"],", 1)+"checkpoint: {every: 2}\n")
		if _, err := train(t, c, berth.TrainOptions{Dir: filepath.Join(dir, metric)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got      %v\nexpected %s", err, want)
		} else {
			checkPanicPosition(t, err)
		}
	}
	c := load(t, strings.Replace(config, "epochs: 1,", "epochs: 2,", 1)+"checkpoint: {every: 2}\n")
	r, err := train(t, c, berth.TrainOptions{Dir: filepath.Join(dir, "fails_value"), Resume: true})
	if err != nil || r.Epochs != 2 {
		t.Errorf("resumed without the metric: %+v, %v", r, err)
	}
}
