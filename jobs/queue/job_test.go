package queue

import (
	"testing"
	"time"
)

// TestWaitsSince: the time that a job waits counts from when it could begin, without pauses and training.
func TestWaitsSince(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	after := func(d time.Duration) time.Time { return at.Add(d) }
	for what, x := range map[string]struct {
		job  Job
		want time.Time
	}{
		"new":                {Job{State: Waiting, Submitted: at}, at},
		"paused before":      {Job{State: Waiting, Submitted: at, Idle: time.Hour}, after(time.Hour)},
		"trained before":     {Job{State: Waiting, Submitted: at, Idle: time.Hour, Length: time.Minute, Left: 20 * time.Second}, after(time.Hour + 40*time.Second)},
		"longer than before": {Job{State: Waiting, Submitted: at, Left: time.Minute}, at},
		"inputs are there":   {Job{State: Waiting, Submitted: at, Inputs: []Input{{Job: 1}}, Ready: after(time.Hour)}, after(time.Hour)},
		"waits for inputs":   {Job{State: Waiting, Submitted: at, Inputs: []Input{{Job: 1}}}, time.Time{}},
		"runs":               {Job{State: Running, Submitted: at}, time.Time{}},
		"finished":           {Job{State: Finished, Submitted: at}, time.Time{}},
	} {
		if got := x.job.WaitsSince(); !got.Equal(x.want) {
			t.Errorf("%s: since %v, expected %v", what, got, x.want)
		}
	}
}
