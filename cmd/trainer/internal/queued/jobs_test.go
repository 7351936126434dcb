package queued

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestTablesFit: on a narrow terminal the columns that matter least give way. No line is too
// long for it.
func TestTablesFit(t *testing.T) {
	value, ends := 0.12345, time.Now().Add(time.Hour)
	view := jobs.View{Job: queue.Job{ID: 123, Name: "an-experiment-with-a-name-of-many-letters", State: queue.Waiting}}
	view.Step, view.Steps, view.Loss, view.Ends, view.Where = 123_456, 999_999, &value, &ends, "waits for 3.2 GiB of memory on cpu:0, which job 17 takes"
	list := []jobs.View{view}
	st := standingWith(t, 1, &value)
	st.Trials[0].Step, st.Trials[0].Steps = 123_456, 999_999
	st.Sweep.Vary[1].Key = "model.a_key_with_many_letters"
	for _, c := range []struct {
		width       int
		jobs, trial string // the heads
	}{
		{119, "JOB NAME STATE STEP LOSS ENDS WHERE, OR WHY NOT", "TRIAL STATE STEP VAL_LOSS optimizer.lr model.a_key_with_many_letters"},
		{59, "JOB NAME STATE WHERE, OR WHY NOT", "TRIAL STATE VAL_LOSS optimizer.lr model.a_…y_letters"},
		{44, "JOB NAME STATE WHERE, OR WHY", "TRIAL VAL_LOSS opti…r.lr model.a…_letters"},
	} {
		for want, print := range map[string]func(io.Writer) error{
			c.jobs:  func(w io.Writer) error { return printJobs(w, list, c.width) },
			c.trial: func(w io.Writer) error { return printTrials(w, st, c.width) },
		} {
			var out bytes.Buffer
			if err := print(&out); err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(out.String(), "\n")
			if got := strings.Join(strings.Fields(head), " "); got != want {
				t.Errorf("%d columns: %q, want %q", c.width, got, want)
			}
			for line := range strings.Lines(out.String()) {
				if n := utf8.RuneCountInString(line) - 1; n > c.width {
					t.Errorf("%d of %d columns: %s", n, c.width, line)
				}
			}
		}
	}
}

// TestLongFailure: a failure has few lines on a terminal, and is whole elsewhere.
func TestLongFailure(t *testing.T) {
	why := strings.Repeat("the loss is not finite ", 30) + "lower the learning rate"
	list := []jobs.View{{Job: queue.Job{ID: 8, Name: "my", State: queue.Failed, Step: 840, Steps: 1800}, Where: why}}
	table := func(width int) string {
		var out bytes.Buffer
		if err := printJobs(&out, list, width); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := table(math.MaxInt); !strings.Contains(got, why) {
		t.Errorf("elsewhere: %s", got)
	}
	got := table(79)
	if n := strings.Count(got, "\n"); n > 5 || !strings.Contains(strings.Join(strings.Fields(got), " "), "learning rate") {
		t.Errorf("%d lines on a terminal: %s", n, got)
	}
}

// TestAnnouncedSweep: the answer to a sweep that is to be halved, and has one boundary, says that no trial ends sooner.
func TestAnnouncedSweep(t *testing.T) {
	for _, c := range []struct {
		text     string
		boundary int
		want     string
	}{
		{"{config: digits, vary: {seed: [1, 2, 3]}}", 45, ": 3 trials in runs, 135 steps, about"},
		{"{config: digits, vary: {seed: [1]}}", 45, ": 1 trial in runs, 45 steps, about"},
		{"{config: digits, vary: {seed: [1, 2, 3]}, halving: true}", 5, ": 3 trials in runs, at most 41% of their 135 steps, about"},
		{"{config: digits, vary: {seed: [1, 2, 3]}, halving: true}", 45, ": 3 trials in runs, 135 steps (none ends sooner: values come out at boundaries, and train.boundary gives one, at step 45), about"},
	} {
		j := &queue.Job{ID: 7, Dir: "runs", Sweep: &queue.Sweep{Text: "sweep: " + c.text, Steps: 45, Boundary: c.boundary}}
		if got := announcedSweep(j); !strings.HasPrefix(got, "sweep 7"+c.want) {
			t.Errorf("%s, boundary %d: %s", c.text, c.boundary, got)
		}
	}
}
