package berth

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// TestSpillShortage: without a bound on host memory, a plan under a limit is refused
// where the machine has too little memory for the device and for what leaves it.
func TestSpillShortage(t *testing.T) {
	c, err := configs.Load("digits", configs.Overlay{Set: []string{"train.microbatches=4", "devices.memory=70%", "model.hidden=[64]"}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := Open(t.Context(), c, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	f := run.Plan.Memory[0]
	if f.Host == 0 || f.Host > f.Peak {
		t.Fatalf("what leaves the device takes %d bytes on the host, of %d", f.Host, f.Peak)
	}
	const takes = 1 << 20
	need := f.Limit + f.Host + takes + goHeap
	if err := run.setup.spillShortage(takes, need); err != nil {
		t.Error(err)
	}
	err = run.setup.spillShortage(takes, need-1)
	if !errors.Is(err, residency.ErrHostMemory) || !IsUsage(err) || !strings.Contains(err.Error(), "--host-memory") {
		t.Error(err)
	}
	run.Plan.Memory = []partition.Forecast{{Limit: 2 * f.Peak, Peak: f.Peak}}
	if err := run.setup.spillShortage(takes, 0); err != nil {
		t.Errorf("nothing leaves the device: %v", err)
	}
}

// TestHostMemoryOfSaves: where saves take what host memory there may be, the error
// names checkpoint.staging.
func TestHostMemoryOfSaves(t *testing.T) {
	for staging, want := range map[string]string{"2GiB": ", or a checkpoint.staging below 2.0 GiB", "whole": "or use smaller batches"} {
		set := []string{"devices.host_memory=1MiB", "train.batch=1400", "checkpoint.staging=" + staging}
		c, err := configs.Load("digits", configs.Overlay{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), c, OpenOptions{})
		if !errors.Is(err, residency.ErrHostMemory) || !IsUsage(err) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("staging %s: %v, want %q at the end", staging, err, want)
		}
	}
}
