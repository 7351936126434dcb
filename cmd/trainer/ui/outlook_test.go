package ui

import (
	"math"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
)

// The end of a run is foretold by the time of its newest steps, and not where that is unknown or absurd.
func TestOutlook(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	run := func(change func(*rundir.Summary)) *rundir.Summary {
		s := &rundir.Summary{Condition: rundir.Running, Config: &configs.Config{}, Total: 100, EpochSteps: 20, Measured: true,
			Last: rundir.Record{Step: 40, Boundary: true, Time: at, Values: map[string]float64{"train_s": 9, "val_s": 1}}}
		change(s)
		return s
	}
	for name, x := range map[string]struct {
		change func(*rundir.Summary)
		left   time.Duration // 0: not known
		device string
	}{
		"by epochs":           {func(*rundir.Summary) {}, 30 * time.Second, "1 cpu device"},
		"by boundaries":       {func(s *rundir.Summary) { s.Config.Train.Boundary = 10 }, time.Minute, "1 cpu device"},
		"its devices":         {func(s *rundir.Summary) { s.Config.Devices.Use = "cpu:2" }, 30 * time.Second, "2 cpu devices"},
		"one, with its count": {func(s *rundir.Summary) { s.Config.Devices.Use = "cpu:1" }, 30 * time.Second, "1 cpu device"},
		"several kinds":       {func(s *rundir.Summary) { s.Config.Devices.Use = "cpu:2, null,cpu" }, 30 * time.Second, "3 cpu devices, 1 null device"},
		"a list of devices":   {func(s *rundir.Summary) { s.Config.Devices.Each = []configs.DeviceEntry{{Use: "opencl"}, {Use: "cpu"}} }, 30 * time.Second, "1 opencl device, 1 cpu device"},
		"no time":             {func(s *rundir.Summary) { s.Last.Values = nil }, 0, "1 cpu device"},
		"NaN":                 {func(s *rundir.Summary) { s.Last.Values["train_s"] = math.NaN() }, 0, "1 cpu device"},
		"for ever":            {func(s *rundir.Summary) { s.Last.Values["train_s"] = 1e300 }, 0, "1 cpu device"},
		"after all years":     {func(s *rundir.Summary) { s.Last.Time = time.Date(9999, 12, 31, 23, 59, 50, 0, time.UTC) }, 0, "1 cpu device"},
		"negative":            {func(s *rundir.Summary) { s.Last.Values["train_s"] = -1e9 }, 0, "1 cpu device"},
		"no length":           {func(s *rundir.Summary) { s.Total = 0 }, 0, "1 cpu device"},
		"at its end":          {func(s *rundir.Summary) { s.Last.Step = 100 }, 0, "1 cpu device"},
	} {
		o := outlookOf(run(x.change))
		if o == nil || o.Device != x.device || (x.left == 0) != o.Ends.IsZero() || x.left != 0 && !o.Ends.Equal(at.Add(x.left)) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if o := outlookOf(run(func(s *rundir.Summary) { s.Condition = rundir.Completed })); o != nil {
		t.Errorf("of a finished run: %+v", o)
	}
}
