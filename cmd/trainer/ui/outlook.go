package ui

import (
	"cmp"
	"strings"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
)

// longest is the longest time, in seconds, that is foretold of a run.
const longest = 1e9

// outlook is what the page shows of a run that trains.
type outlook struct {
	Device string    `json:"device,omitempty"` // kinds and counts, as its config has them
	Ends   time.Time `json:"ends,omitzero"`    // by the pace of its newest steps; zero: not known
	Live   bool      `json:"live,omitempty"`   // the step of the run is that of now; others tell at boundaries
}

// outlookOf is that of a run; nil for one that does not train.
func outlookOf(s *rundir.Summary) *outlook {
	if s.Condition != rundir.Running || s.Config == nil {
		return nil
	}
	d := &s.Config.Devices
	var uses []string
	for _, e := range d.Each {
		uses = append(uses, e.Use)
	}
	o := &outlook{Device: cmp.Or(strings.Join(uses, ", "), d.Use, "cpu")}
	steps := cmp.Or(s.Config.Train.Boundary, s.EpochSteps) // from one boundary to the next
	seconds := s.Last.Values["train_s"] + s.Last.Values["val_s"]
	if left := s.Total - s.Last.Step; s.Measured && left > 0 && steps > 0 && seconds > 0 && !s.Last.Time.IsZero() {
		if left := seconds / float64(steps) * float64(left); left < longest {
			o.Ends = overview.Known(s.Last.Time.Add(time.Duration(left * float64(time.Second))).Round(time.Second))
		}
	}
	return o
}
