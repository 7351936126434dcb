package train_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
)

// memoryCases are shipped configs on one device and several, with one microbatch
// and several.
func memoryCases(short bool) (cases []memoryCase) {
	names := []string{"digits", "digits-cnn", "shakespeare", "mnist-cnn"}
	if short {
		names = names[:2]
	}
	for _, name := range names {
		for _, microbatches := range []int{1, 4} {
			set := fmt.Sprintf("train.microbatches=%d", microbatches)
			cases = append(cases,
				memoryCase{name, []string{set}},
				memoryCase{name, []string{set, "partition.stages=3"}},
				memoryCase{name, []string{set, "devices.use=cpu:3"}})
		}
		cases = append(cases,
			memoryCase{name, []string{"train.microbatches=4", "devices.use=cpu:3", "partition.schedule=gpipe"}},
			memoryCase{name, []string{"train.microbatches=4", "train.reduction=tree", "partition.replicas=2", "devices.use=cpu:4"}},
			memoryCase{name, []string{"train.microbatches=6", "train.batch=30", "train.reduction=tree", "partition.replicas=3", "devices.use=cpu:3", "partition.shard=optimizer"}})
	}
	ranges := []string{"model.hidden=[2100]", "train.microbatches=4", "train.reduction=tree", "partition.replicas=2", "devices.use=cpu:2", "partition.shard=optimizer"}
	return append(cases, memoryCase{"digits", ranges})
}

type memoryCase struct {
	name string
	set  []string
}

// open plans a case, with a limit in bytes on each device; 0: none.
func (c memoryCase) open(t *testing.T, limit int64) (*berth.Run, error) {
	t.Helper()
	set := c.set
	if limit > 0 {
		set = append(set[:len(set):len(set)], fmt.Sprintf("devices.memory=%dB", limit))
	}
	config, err := configs.Load(c.name, configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return berth.Open(t.Context(), config, berth.OpenOptions{})
}

// train runs a few steps within a limit.
func (c memoryCase) train(t *testing.T, limit int64) (*berth.Run, *berth.Report) {
	t.Helper()
	run, err := c.open(t, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	return run, runtest.Train(t, run, berth.TrainOptions{MaxSteps: 3})
}

// The peak that a plan states is the one that a run has, to the byte.
func TestPlannedPeakIsMeasured(t *testing.T) {
	testall.Long(t)
	for _, c := range memoryCases(!testall.Wanted()) {
		t.Run(fmt.Sprint(c.name, c.set), func(t *testing.T) {
			run, report := c.train(t, 0)
			for i, f := range run.Plan().Memory {
				if got := report.Devices[i].PeakBytes; got != f.Peak {
					t.Errorf("%s: planned %d bytes (%v), measured %d (%v)", report.Devices[i].ID, f.Peak, f.PeakBy, got, report.Devices[i].ByUsage)
				}
			}
		})
	}
}

// A validation at the end of an epoch adds nothing to the peak of the steps.
func TestPlannedPeakCoversValidation(t *testing.T) {
	for _, set := range [][]string{{"train.microbatches=4"}, {"train.microbatches=1", "devices.use=cpu:2"}} {
		run, err := memoryCase{"digits", append(set, "model.hidden=[16]")}.open(t, 0)
		if err != nil {
			t.Fatal(err)
		}
		report := runtest.Train(t, run, berth.TrainOptions{MaxSteps: 50})
		for i, f := range run.Plan().Memory {
			if got := report.Devices[i].PeakBytes; got != f.Peak || report.Final.ValLoss == nil {
				t.Errorf("%v: %s: planned %d bytes (%v), measured %d (%v); validation %v", set, report.Devices[i].ID, f.Peak, f.PeakBy, got, report.Devices[i].ByUsage, report.Final.ValLoss)
			}
		}
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Any memory from the floor on trains the same weights, and less is refused.
func TestLittleMemoryTrainsTheSame(t *testing.T) {
	testall.Long(t)
	for i, c := range memoryCases(!testall.Wanted()) {
		if i%3 > 0 && !testall.Wanted() {
			continue
		}
		t.Run(fmt.Sprint(c.name, c.set), func(t *testing.T) {
			free, want := c.train(t, 0)
			least := c.floor(t)
			peak := int64(0)
			for _, f := range free.Plan().Memory {
				peak = max(peak, f.Peak)
			}
			limits := []int64{least, (least + peak) / 2}
			if !testall.Wanted() {
				limits = limits[i/3%2:][:1]
			}
			for _, limit := range limits {
				_, got := c.train(t, limit)
				if got.WeightsSHA256 != want.WeightsSHA256 {
					t.Errorf("%d bytes: weights %s, without a limit %s", limit, got.WeightsSHA256, want.WeightsSHA256)
				}
				for _, d := range got.Devices {
					if d.PeakBytes > limit {
						t.Errorf("%s took %d bytes of %d", d.ID, d.PeakBytes, limit)
					}
				}
			}
		})
	}
}

// A plan has memory for steps op by op and for compiled ones, where segments are compiled
// while the steps run.
func TestPeakWhileCompiling(t *testing.T) {
	for i, c := range memoryCases(!testall.Wanted())[3:9:9] { // of several microbatches
		if i != 2 && !testall.Wanted() {
			continue
		}
		c.set = append(c.set, "devices.compile=beside")
		least := c.floor(t)
		_, want := memoryCase{c.name, c.set[:len(c.set)-1]}.train(t, 0)
		for _, limit := range []int64{0, least} {
			run, got := c.train(t, limit)
			if got.WeightsSHA256 != want.WeightsSHA256 {
				t.Errorf("%v, %d bytes: weights %s, compiled before the first step %s", c, limit, got.WeightsSHA256, want.WeightsSHA256)
			}
			for i, f := range run.Plan().Memory {
				if d := got.Devices[i]; d.PeakBytes > f.Peak || limit > 0 && d.PeakBytes > limit {
					t.Errorf("%v: %s: planned %d bytes within %d, measured %d", c, d.ID, f.Peak, limit, d.PeakBytes)
				}
			}
		}
	}
}

// floor is the least limit, which no plan goes below.
func (c memoryCase) floor(t *testing.T) int64 {
	t.Helper()
	for limit := int64(64 << 10); ; {
		run, err := c.open(t, limit)
		var small *partition.MemoryError
		switch {
		case err == nil:
			if err := run.Close(); err != nil {
				t.Fatal(err)
			}
			return limit
		case !errors.As(err, &small) || small.Floor <= limit:
			t.Fatal(err)
		}
		limit = small.Floor
	}
}

// A step in little memory moves the bytes that its plan says.
func TestStepMovesWhatItsPlanSays(t *testing.T) {
	run, got := memoryCase{"digits", []string{"train.microbatches=4"}}.train(t, 144<<10)
	steady, moved := got.Ledger.SteadyState, run.Plan().Memory[0].Moved()
	if took := steady.CopyInBytesPerStep - steady.BatchBytesPerStep + steady.SpillBytesPerStep; took != moved || moved == 0 {
		t.Errorf("a step moves %d bytes, planned %d", took, moved)
	}
	if got.Devices[0].Evict != "next-use" {
		t.Errorf("the report says %q", got.Devices[0].Evict)
	}
}
