package session_test

import (
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/internal/runtest"
)

// A run gets the executables that its plan foretells. Where they are kept, the next run
// of the same config on the same devices compiles none.
func TestExecutables(t *testing.T) {
	for _, x := range []struct {
		config, use string
		set         []string
	}{
		{"digits", "cpu:1", nil},
		{"digits-cnn", "cpu:2", []string{"train.reduction=tree", "partition.replicas=2", "train.microbatches=4"}},
		{"digits", "cpu:1", []string{"devices.op_by_op=plain"}},
	} {
		c := runtest.Parsed(t, x.config, x.set...)
		again := func(d *berth.Devices) (got berth.Executables) {
			r := runtest.OpenOn(t, d, c)
			foretold, err := r.Executables(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = runtest.Train(t, r, berth.TrainOptions{Dir: t.TempDir(), MaxSteps: 1}).Executables.Executables
			if got != foretold {
				t.Errorf("%s %v: %+v, and %+v were foretold", x.config, x.set, got, foretold)
			}
			return got
		}
		devices := runtest.OpenDevices(t, x.use, 1<<28)
		first, second := again(devices), again(devices)
		if all := first.Memory + first.Compiled; first.Compiled == 0 || second != (berth.Executables{Memory: all}) {
			t.Errorf("%s %v: first %+v, then %+v", x.config, x.set, first, second)
		}
		few := runtest.OpenDevices(t, x.use, 1<<28, "devices.compiled=1")
		if first, second := again(few), again(few); second.Compiled >= first.Compiled || second.Memory <= first.Memory || second.Compiled == 0 {
			t.Errorf("%s %v: where each device keeps 1 executable, first %+v, then %+v", x.config, x.set, first, second)
		}
	}
}
