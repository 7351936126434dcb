package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/residency"
)

// TestHostMemoryOfSaves: where saves take what host memory there may be, the error
// names checkpoint.staging.
func TestHostMemoryOfSaves(t *testing.T) {
	for staging, want := range map[string]string{"2GiB": ", or a checkpoint.staging below 2.0 GiB", "whole": "or use smaller batches"} {
		set := []string{"devices.host_memory=1MiB", "train.batch=1400", "checkpoint.staging=" + staging}
		c, err := configs.Load("digits", configs.Overlay{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		_, err = berth.Open(t.Context(), c, berth.OpenOptions{})
		if !errors.Is(err, residency.ErrHostMemory) || !berth.IsUsage(err) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("staging %s: %v, want %q at the end", staging, err, want)
		}
	}
}
