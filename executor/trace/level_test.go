package trace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/residency/ledger"
)

func TestLevelAsked(t *testing.T) {
	for text, want := range map[string]trace.Level{"": 0, "0": 0, "1": trace.Plan, "3": trace.Moves} {
		t.Setenv("BERTH_DEBUG", text)
		if got, err := trace.LevelAsked(); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"4", "-1", "x"} {
		t.Setenv("BERTH_DEBUG", text)
		if _, err := trace.LevelAsked(); !errors.Is(err, device.ErrEnvironment) || !strings.Contains(err.Error(), "from 0 to 3") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Each level prints what it is for, and what the levels below it are for.
func TestDebug(t *testing.T) {
	r := smallrun.New(t, "cpu")
	for level := range trace.Moves + 1 {
		var out strings.Builder
		d := trace.Debug{Level: level, Out: &out}
		d.Plan(r.Devices, r.Plan)
		d.Step(7, 1.5, r.Runtime.Residency.Ledger(), r.Devices)
		if f := d.Transfers(nil); f != nil {
			f(ledger.Row{Step: 7, Value: "fc.weight", Cause: "stale"})
		}
		for text, from := range map[string]trace.Level{"cpu:0: ": trace.Plan, "step 7: 1.500 ms": trace.Steps, "cause: stale": trace.Moves} {
			if strings.Contains(out.String(), text) != (level >= from) {
				t.Errorf("level %d prints %q", level, out.String())
			}
		}
	}
}
