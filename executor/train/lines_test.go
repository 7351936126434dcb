package train_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

const lines = `
data: {source: lines, path: TEXT, buckets: [4, 7, 12]}
model: {preset: gpt, layers: 2, heads: 2, width: 16, dropout: 0.1}
train: {epochs: 1, batch: 8, microbatches: 4, reduction: tree}
optimizer: {name: adamw, lr: 0.01, clip_norm: 1.0}
`

// linesConfig is lines with a text of its own.
func linesConfig(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "lines.txt")
	text := ""
	for i := range 60 {
		text += fmt.Sprintf("%.*s\n", 1+i*i%11, "a cat sat on a mat"[i%7:])
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(lines, "TEXT", path, 1)
}

// Lines of different lengths give the same weights whatever runs them, also over a resume
// within an epoch. Each bucket is compiled once, and a step takes the memory that was planned.
func TestLinesAnyWay(t *testing.T) {
	config := linesConfig(t)
	r := runtest.Open(t, config)
	want := runtest.Train(t, r, berth.TrainOptions{})
	list := r.Buckets()
	if len(list) != 3 || list[0].Steps == 0 || list[1].Steps == 0 || list[2].Steps == 0 || list[0].Steps+list[1].Steps+list[2].Steps != r.StepsPerEpoch() {
		t.Fatalf("buckets %+v in %d steps", list, r.StepsPerEpoch())
	}
	ways := [][]string{
		{"devices.op_by_op=plain"}, {"devices=cpu:2", "partition.replicas=2"}, {"devices.memory=60%"}, {"devices=cpu:2", "partition.schedule=zb-h1"},
		{"devices=cpu:2", "partition.replicas=2", "partition.shard=optimizer"}, {"devices=cpu:4", "partition.replicas=2", "devices.memory=75%"}, {"partition.recompute=block"},
	}
	for _, way := range ways[:testall.Or(2, len(ways))] {
		got := runtest.Train(t, runtest.Open(t, config, way...), berth.TrainOptions{})
		if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) || *got.Final.ValLoss != *want.Final.ValLoss {
			t.Errorf("%v: other weights or losses", way)
		}
		for _, d := range got.Devices {
			if most := max(d.PlannedBytes, d.FloorBytes); d.PeakBytes > most {
				t.Errorf("%v: %s took %d bytes, planned were %d", way, d.ID, d.PeakBytes, most)
			}
		}
	}
	dir := t.TempDir()
	first := runtest.Train(t, runtest.Open(t, config), berth.TrainOptions{Dir: dir, MaxSteps: 5})
	got := runtest.Train(t, runtest.Open(t, config), berth.TrainOptions{Dir: dir, Resume: true})
	if got.WeightsSHA256 != want.WeightsSHA256 || first.WeightsSHA256 == want.WeightsSHA256 {
		t.Error("stopped and resumed: other weights")
	}
	if _, err := runtest.Open(t, config, "data.buckets=[4, 12]").Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true}); !errors.Is(err, berth.ErrChanged) || !strings.Contains(err.Error(), "data.buckets was [4, 7, 12], is [4, 12]") {
		t.Errorf("resumed with other buckets: %v", err)
	}
}

// A run compiles for each bucket what a run of one bucket compiles, as plan says, and no
// more for longer training.
func TestLinesCompileOncePerBucket(t *testing.T) {
	compiled := func(buckets string, epochs int) int {
		r := runtest.Open(t, linesConfig(t), "data.buckets="+buckets, fmt.Sprintf("train.epochs=%d", epochs))
		foretold, err := r.Executables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := runtest.Train(t, r, berth.TrainOptions{}).Executables.Executables
		if got != foretold {
			t.Errorf("buckets %s: executables %+v, foretold were %+v", buckets, got, foretold)
		}
		return got.Memory + got.Disk + got.Compiled
	}
	one := compiled("[12]", 1)
	if three, longer := compiled("[4, 7, 12]", 1), compiled("[4, 7, 12]", 2); three > 3*one || longer != three {
		t.Errorf("%d executables for one bucket, %d for three, %d in more epochs", one, three, longer)
	}
	if with := compiled("[1, 12, 40]", 1); with != one {
		t.Errorf("%d executables for one bucket, %d with two that no line falls into", one, with)
	}
}

// Buckets without samples take no memory, and are still those of the run.
func TestBucketsWithoutSamples(t *testing.T) {
	config := linesConfig(t)
	peak := func(buckets string) int64 {
		return runtest.Open(t, config, "model.context=40", "data.buckets="+buckets).Plan().Memory[0].Peak
	}
	if with, without := peak("[1, 4, 7, 12, 40]"), peak("[4, 7, 12]"); with != without {
		t.Errorf("the plan's peak is %d bytes, without empty buckets %d", with, without)
	}
	list := runtest.Open(t, config, "data.buckets=[1, 12, 40]").Buckets()
	if len(list) != 3 || list[0].Plan != nil || list[1].Plan == nil || list[1].Samples != 54 || list[2] != (berth.Bucket{Positions: 40}) {
		t.Errorf("buckets %+v", list)
	}
}

// The steps of a smaller bucket are predicted to be quicker. On a quiet machine
// (TEST_PREDICTION, as make predictions sets it) they are, by a factor that is at most twice
// off.
func TestPredictedBuckets(t *testing.T) {
	c, err := configs.Load("shakespeare-lines", configs.Overlay{Set: []string{"data.buckets=[16, 64]"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var predicted []float64
	for _, b := range r.Buckets() {
		p, err := b.Plan.Predict(nil)
		if err != nil {
			t.Fatal(err)
		}
		predicted = append(predicted, p.Seconds)
	}
	want := predicted[1] / predicted[0]
	if !(want > 1) {
		t.Errorf("64 tokens are predicted to take %.2f times the time of 16", want)
	}
	if os.Getenv("TEST_PREDICTION") == "" {
		return
	}
	tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir(), MaxSteps: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	least := map[int]float64{}
	for tr.More() {
		b, err := tr.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begin, positions := time.Now(), b.Input.Shape()[1]
		if err := tr.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Fetch(t.Context(), "step"); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin).Seconds()
		if least[positions] == 0 || took < least[positions] {
			least[positions] = took
		}
	}
	got := least[64] / least[16]
	t.Logf("predicted %.4f s, measured %v", predicted, least)
	if !(got > 1 && got > want/2 && got < 2*want) {
		t.Errorf("64 tokens take %.2f times the time of 16, predicted was %.2f times", got, want)
	}
}

// What a program writes into the padding of a batch, and into its targets, changes no bit.
func TestPaddingOfABatch(t *testing.T) {
	hash := map[string]bool{}
	for _, poison := range []int32{0, 8} {
		r := runtest.Open(t, linesConfig(t))
		tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		padding := 0
		for tr.More() {
			b, err := tr.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			positions := b.Input.Shape()[1]
			for i, length := range b.Lengths.Int32s() {
				for j := int(length); j < positions; j++ {
					b.Input.Int32s()[i*positions+j], b.Target.Int32s()[i*positions+j] = poison, poison
					padding++
				}
			}
			if err := tr.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		rep, err := tr.Finish(t.Context())
		if err = errors.Join(err, tr.Close()); err != nil {
			t.Fatal(err)
		}
		if padding == 0 {
			t.Fatal("no sample is padded")
		}
		hash[rep.WeightsSHA256] = true
	}
	if len(hash) != 1 {
		t.Errorf("%d different weights", len(hash))
	}
}

// Answers about lines keep their order, are the same to the bit in a batch with longer lines, and
// those of a service are those of Predict.
func TestAnswersAboutLines(t *testing.T) {
	config, dir := linesConfig(t), t.TempDir()
	runtest.Train(t, runtest.Open(t, config), berth.TrainOptions{Dir: dir})
	c, err := configs.Parse("test.yaml", []byte(config), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	predict := func(text string) (list []berth.Prediction) {
		path := filepath.Join(t.TempDir(), "in.txt")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Predict(t.Context(), path, func(p berth.Prediction) error {
			list = append(list, p)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return list
	}
	alone, beside := predict("cat\nmat\na\n"), predict("cat\na cat sat o\nmat\nsat on a\na\n")
	if len(alone) != 3 || len(beside) != 5 {
		t.Fatalf("%d and %d answers", len(alone), len(beside))
	}
	for i := range alone {
		if b := beside[2*i]; b.Index != 2*i || !slices.Equal(alone[i].Values, b.Values) {
			t.Errorf("answer %d is %v alone, and %v in a batch with longer lines", i, alone[i].Values, b.Values)
		}
	}
	path := filepath.Join(t.TempDir(), "long.txt")
	if err := os.WriteFile(path, []byte("a\na cat sat on a mat\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Predict(t.Context(), path, func(berth.Prediction) error { return nil }); !errors.Is(err, berth.ErrData) || !strings.Contains(err.Error(), "long.txt:2: the line has 19 tokens") {
		t.Errorf("a long line: %v", err)
	}
	s, err := m.Serve(t.Context(), berth.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := []int32{}
	for _, text := range []string{"cat", "mat", "a"} {
		ids, _, err := m.Info().LineTokens(t.Context(), text, 5)
		if err != nil {
			t.Fatal(err)
		}
		for len(ids) < 5 {
			ids = append(ids, datasets.Padding)
		}
		rows = append(rows, ids...)
	}
	answers, err := s.Answers(t.Context(), tensor.New(tensor.WithShape(3, 5), tensor.WithBacking(rows)))
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Label != alone[i].Label || !slices.Equal(a.Values, alone[i].Values) {
			t.Errorf("the service answers %v, Predict %v", a.Values, alone[i].Values)
		}
	}
	if _, err := s.Answers(t.Context(), tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]int32{datasets.Padding, 1}))); !errors.Is(err, berth.ErrOptions) {
		t.Errorf("padding before tokens: %v", err)
	}
}
