package rundir

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/osfile"
)

// Test are the loss and the metrics over the test part, with the weights of the run's best
// checkpoint, or of its newest: test in report.json.
type Test struct {
	Checkpoint uint64         `json:"checkpoint"`
	Step       int            `json:"step"`
	Samples    int            `json:"samples"`
	Loss       float64        `json:"loss"`
	Accuracy   *float64       `json:"accuracy,omitempty"` // nil for regression
	RMSE       *float64       `json:"rmse,omitempty"`
	Metrics    metrics.Values `json:"metrics,omitempty"` // those of boundaries
}

// readReport is report.json in a folder, nil if there is none. A file that is longer than a report
// with so many losses is cut off.
func readReport(dir string, losses int) []byte {
	const perLoss, others = 32, 1 << 20 // bytes
	text, err := osfile.Read(filepath.Join(dir, ReportName), others+perLoss*losses)
	if err != nil {
		return nil
	}
	return text
}

// reportedTest is the result of the test part that the report of a run of so many steps has; nil
// without one. A report of fewer steps is of an earlier call.
func reportedTest(dir string, steps int) *Test {
	var report struct {
		Steps int   `json:"steps"`
		Test  *Test `json:"test"`
	}
	text := readReport(dir, steps)
	if !bytes.Contains(text, []byte(`"test":`)) { // most have none, and many losses to parse
		return nil
	}
	if json.Unmarshal(text, &report) != nil || report.Steps != steps {
		return nil
	}
	return report.Test
}
