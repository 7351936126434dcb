package berth_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/memdir"
	"github.com/berth-ml/berth/internal/testall"
)

// TestMain spends less time on garbage: tests open many runs, all small.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(memdir.Main(m))
}

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
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
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
		o := berth.TrainOptions{AssertResident: true}
		if name == "everything" {
			o.MaxSteps = 13 // an epoch of 11 and more
		}
		want := train(t, open(t, text, "devices=cpu:1", "devices.threads=1"), o)
		for _, set := range [][]string{
			{"devices=cpu:1", "devices.threads=2"},
			{"devices=cpu:2"},
			{"devices=cpu:3"},
			{"devices=cpu:3", "partition.schedule=gpipe"},
			{"devices=cpu:2", "partition.stages=3"},
		} {
			got := train(t, open(t, text, set...), o)
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
	for _, stop := range []int{1, 11, 12, 22, 10, 21, 32}[:testall.Or(4, 7)] {
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
