package train_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

func TestWeightsAreTheSameOnAnyStagesThreadsAndSchedule(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"everything": runtest.Everything, "tied": runtest.Tied(t)} {
		o := berth.TrainOptions{AssertResident: true}
		if name == "everything" {
			o.MaxSteps = 13 // an epoch of 11 and more
		}
		want := runtest.Train(t, runtest.Open(t, text, "devices=cpu:1", "devices.threads=1"), o)
		for _, set := range [][]string{
			{"devices=cpu:1", "devices.threads=2"},
			{"devices=cpu:2"},
			{"devices=cpu:3"},
			{"devices=cpu:3", "partition.schedule=gpipe"},
			{"devices=cpu:2", "partition.stages=3"},
		} {
			got := runtest.Train(t, runtest.Open(t, text, set...), o)
			if got.WeightsSHA256 != want.WeightsSHA256 || !slices.Equal(got.Losses, want.Losses) {
				t.Errorf("%s: %v changes the weights or losses (%d stages)", name, set, got.Stages)
			}
		}
	}
}

// TestBF16 wants losses near those of float32 and weights that are others, but
// the same however the run is cut.
func TestBF16(t *testing.T) {
	text := runtest.Tied(t)
	single := runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{})
	want := runtest.Train(t, runtest.Open(t, text, "precision=bf16", "devices=cpu:1", "devices.threads=1"), berth.TrainOptions{})
	got := runtest.Train(t, runtest.Open(t, text, "precision=bf16", "devices=cpu:2"), berth.TrainOptions{})
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
	t.Parallel()
	want := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{})
	if want.Steps != 33 {
		t.Fatalf("the run has %d steps, the test expects 33", want.Steps)
	}
	for _, stop := range []int{1, 11, 12, 22, 10, 21, 32}[:testall.Or(4, 7)] {
		dir := t.TempDir()
		runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: stop})
		got := runtest.Train(t, runtest.Open(t, runtest.Everything, "devices=cpu:2"), berth.TrainOptions{Dir: dir, Resume: true})
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
	want := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir})
	got := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, Resume: true})
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
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{MaxSteps: 2})
	if len(rep.Losses) != 2 || rep.Final.TrainLoss == nil || rep.Final.ValLoss != nil {
		t.Fatalf("losses %v, final %+v", rep.Losses, rep.Final)
	}
	if want := (rep.Losses[0] + rep.Losses[1]) / 2; math.Abs(*rep.Final.TrainLoss-want) > 1e-12 {
		t.Errorf("training loss %v, want %v", *rep.Final.TrainLoss, want)
	}
}

func TestLedgerOfARun(t *testing.T) {
	r := runtest.Open(t, runtest.Everything, "devices=cpu:1", "train.epochs=1")
	rep := runtest.Train(t, r, berth.TrainOptions{AssertResident: true})
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
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 5, Report: filepath.Join(dir, "copy.json")})
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
