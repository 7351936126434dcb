package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
	"github.com/berth-ml/berth/configs"
)

// longest is the longest time, in seconds, that is foretold of a run.
const longest = 1e9

// outlook is what the page shows of a run that trains.
type outlook struct {
	Device string    `json:"device,omitempty"` // how many of which kinds its config asks for: "2 cpu devices"
	Ends   time.Time `json:"ends,omitzero"`    // by the pace of its newest steps; zero: not known
	Live   bool      `json:"live,omitempty"`   // the step of the run is that of now; others tell at boundaries
}

// outlookOf is that of a run; nil for one that does not train.
func outlookOf(s *rundir.Summary) *outlook {
	if s.Condition != rundir.Running || s.Config == nil {
		return nil
	}
	o := &outlook{Device: devicesOf(&s.Config.Devices)}
	steps := cmp.Or(s.Config.Train.Boundary, s.EpochSteps) // from one boundary to the next
	seconds := s.Last.Values["train_s"] + s.Last.Values["val_s"]
	if left := s.Total - s.Last.Step; s.Measured && left > 0 && steps > 0 && seconds > 0 && !s.Last.Time.IsZero() {
		if left := seconds / float64(steps) * float64(left); left < longest {
			o.Ends = overview.Known(s.Last.Time.Add(time.Duration(left * float64(time.Second))).Round(time.Second))
		}
	}
	return o
}

// devicesOf says in words what a config asks for: "cpu:1" could be taken for the second cpu device.
func devicesOf(d *configs.Devices) string {
	asked := strings.Split(cmp.Or(d.Use, "cpu"), ",")
	if len(d.Each) > 0 {
		asked = nil
		for _, e := range d.Each {
			asked = append(asked, e.Use)
		}
	}
	counts, kinds := map[string]int{}, []string(nil)
	for _, use := range asked {
		kind, count, _ := strings.Cut(strings.TrimSpace(use), ":")
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		n, err := strconv.Atoi(count)
		if err != nil {
			n = 1
		}
		counts[kind] += n
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s devices", counts[kind], kind)
		if counts[kind] == 1 {
			kinds[i] = "1 " + kind + " device"
		}
	}
	return strings.Join(kinds, ", ")
}
