package train_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
)

// endsAfter is a context that ends once it was asked so many times.
type endsAfter struct {
	context.Context
	left int
}

func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A model whose parameters have no room anywhere is refused before its step is
// built.
func TestTooLargeModel(t *testing.T) {
	c, err := configs.Parse("test.yaml", []byte("data: digits\nmodel: {preset: mlp, hidden: [1000000, 1000000]}\n"), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = berth.Open(t.Context(), c, berth.OpenOptions{})
	if !errors.Is(err, partition.ErrMemory) || !berth.IsUsage(err) || !strings.Contains(err.Error(), "parameters alone") {
		t.Errorf("the error is %v", err)
	}
}

// A batch beyond the data costs no more than the data: its empty microbatches are
// planned nowhere, and the weights are those of a batch of all the data.
func TestBatchBeyondTheData(t *testing.T) {
	const text = "data: {source: digits, split: 0.18}\nmodel: {preset: mlp, hidden: [8]}\ntrain: {epochs: 1}\n"
	hash := func(batch, microbatches int) string {
		t.Helper()
		run := runtest.Open(t, text, fmt.Sprintf("train.batch=%d", batch), fmt.Sprintf("train.microbatches=%d", microbatches))
		if n := run.Data.Train.Len(); run.Plan().Microbatches > n {
			t.Errorf("%d microbatches are planned for %d samples", run.Plan().Microbatches, n)
		}
		if said := len(run.Notes()) > 0; said != (batch > run.Data.Train.Len()) {
			t.Errorf("batch %d: notes %q", batch, run.Notes())
		}
		return runtest.Train(t, run, berth.TrainOptions{}).WeightsSHA256
	}
	samples := runtest.Open(t, text, "train.batch=1").Data.Train.Len()
	if got, want := hash(1e9, 1e9), hash(samples, samples); got != want {
		t.Errorf("weights %s, want %s", got, want)
	}
	want := hash(samples, 1)
	for _, x := range []struct{ batch, microbatches int }{{4 * samples, 4}, {1e9, 1}, {1e9, 2}} {
		if got := hash(x.batch, x.microbatches); got != want {
			t.Errorf("%+v: weights %s, want %s", x, got, want)
		}
	}
}

// An error about memory says so where the batch is beyond the data.
func TestBatchBeyondDataAndMemory(t *testing.T) {
	c, err := configs.Parse("test.yaml", []byte("data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: {batch: 2000000000}\n"), configs.Overlay{Set: []string{"devices.memory=100KiB"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = berth.Open(t.Context(), c, berth.OpenOptions{})
	if !errors.Is(err, partition.ErrMemory) || !strings.Contains(err.Error(), "train.batch, 2000000000, is more than") {
		t.Errorf("the error is %v", err)
	}
}

// Microbatches beyond those of a step are refused at their place, once the number
// of stages is known.
func TestTooManyMicrobatches(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "many.csv")
	if err := os.WriteFile(path, []byte("x,y\n"+strings.Repeat("1,2\n", 6_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	text := "data: {source: csv, path: %s, label: y, task: regression}\nmodel: {preset: mlp, hidden: [2" + strings.Repeat(", 2", 19) + "]}\n" +
		"train:\n  batch: %d\n  microbatches: %[2]d\ndevices: cpu:2\npartition: {stages: %d}\n"
	for _, x := range []struct {
		microbatches, stages int
		want                 string
	}{
		{4097, 1, "test.yaml:5: train.microbatches: 4,097 microbatches are too many for a step on 1 stage: use at most 4096, and larger ones"},
		{4000, 20, "test.yaml:5: train.microbatches: 4,000 microbatches are too many for a step on 20 stages: use at most 3276, and larger ones"},
	} {
		c, err := configs.Parse("test.yaml", fmt.Appendf(nil, text, path, x.microbatches, x.stages), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = berth.Open(t.Context(), c, berth.OpenOptions{}); err == nil || err.Error() != x.want || !berth.IsUsage(err) {
			t.Errorf("got %v, want %s", err, x.want)
		}
	}
}

// Budgets beyond the machine's memory, and those that leave other devices nothing, are
// refused at their place, with the memory there is.
func TestBudgetsBeyondTheMemory(t *testing.T) {
	for devices, want := range map[string]string{
		"\n  each: [{use: cpu, memory: 1000000GB}, {use: cpu}]":          `^test.yaml:4: devices.each: cpu: .* budgets of 909\.\d TiB leave nothing of `,
		"\n  each: [{use: cpu, memory: 1MiB}, {use: cpu, memory: 10TB}]": `^test.yaml:4: devices.each: cpu:1: .* it is 9\.1 TiB, but the machine has [0-9.]+ [GMT]iB: lower `,
		" {memory: 10TB}": `^test.yaml:3: devices.memory: cpu:0: .* it is 9\.1 TiB, but the machine has [0-9.]+ [GMT]iB: lower `,
	} {
		c, err := configs.Parse("test.yaml", []byte("data: digits\nmodel: {preset: mlp, hidden: [8]}\ndevices:"+devices+"\n"), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = berth.Open(t.Context(), c, berth.OpenOptions{})
		if !errors.Is(err, device.ErrBudget) || !berth.IsUsage(err) || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("devices:%s: the error is %v", devices, err)
		}
	}
}

// However far planning and compiling have come, they end where the context
// does, with its error: without limits on memory, and with limits that need a
// plan of their own.
func TestStartupStops(t *testing.T) {
	startupStops(t, testall.Or(7, 1))
	startupStops(t, testall.Or(29, 1), "devices.memory=70%", "devices.host_memory=64MiB")
}

// startupStops ends a run after the context was asked 0, by, 2*by, … times, until
// that is after its first step.
func startupStops(t *testing.T, by int, set ...string) {
	c, err := configs.Parse("test.yaml", []byte("data: digits\nmodel: {preset: mlp, hidden: [8]}\n"), configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	opened, begun := 0, 0
	for n := 0; opened == 0 || begun == 0; n += by {
		ctx := &endsAfter{context.Background(), n}
		run, err := berth.Open(ctx, c, berth.OpenOptions{})
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("asked %d times: %v", n, err)
			}
			continue
		}
		if opened == 0 {
			opened = n
		}
		_, err = run.Train(ctx, berth.TrainOptions{Dir: t.TempDir(), MaxSteps: 1})
		if err == nil {
			begun = n
		} else if !errors.Is(err, berth.ErrStopped) && !errors.Is(err, context.Canceled) {
			t.Errorf("asked %d times: %v", n, err)
		}
		if err := run.Close(); err != nil {
			t.Errorf("asked %d times: %v", n, err)
		}
	}
	t.Logf("planning asks %d times whether to stop, all until the first step %d times", opened, begun)
	if opened < 5 || begun < opened+3 {
		t.Error("planning or compiling seldom asks whether to stop")
	}
}
