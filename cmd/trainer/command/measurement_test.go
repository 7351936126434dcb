package command

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/bench"
	"github.com/berth-ml/berth/internal/busy"
)

// A measurement that other processes disturbed says so, but not of the processes that measure together.
func TestMeasurementOfABusyMachine(t *testing.T) {
	before := busy.Assume
	defer func() { busy.Assume = before }()
	for _, x := range []struct{ busy, sharing, told bool }{{false, false, false}, {true, false, true}, {true, true, false}} {
		busy.Assume = func() bool { return x.busy }
		var progress strings.Builder
		m := measurement[int]{of: func(bench.Workload) (int, error) { return 1, nil }, rate: func(int) string { return "1 ms a step" }, sharing: x.sharing}
		if _, err := m.all(&progress, []bench.Workload{{Name: "w"}}); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(progress.String(), "w: other processes took the cores meanwhile"); told != x.told {
			t.Errorf("%+v: %s", x, progress.String())
		}
	}
}
