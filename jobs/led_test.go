package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// openCounting opens a daemon that counts how often Ended hears of each job. The counts are whole once the daemon is closed.
func openCounting(t *testing.T, dir string) (d *Daemon, ended map[int]int) {
	t.Helper()
	var mu sync.Mutex
	ended = map[int]int{}
	d, err := Open(Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"}, Told: func(s string) { t.Log(s) },
		Ended: func(j queue.Job) {
			mu.Lock()
			defer mu.Unlock()
			ended[j.ID]++
		}})
	if err != nil {
		t.Fatal(err)
	}
	return d, ended
}

// once is that Ended has heard of the jobs 1 to n once each.
func once(n int) map[int]int {
	want := map[int]int{}
	for id := range n {
		want[id+1] = 1
	}
	return want
}

// inPipeline is a pipeline of some steps.
func inPipeline(dir, key string, steps ...Step) Submission {
	return Submission{Key: key, Name: key, Config: []byte("jobs: {}"), Parent: filepath.Join(dir, "runs"), Steps: steps}
}

// missingText is a step that fails.
func missingText(dir string) Step {
	return Step{Name: "bad", Work: &queue.Work{Kind: queue.WorkTokenizer, Texts: []string{filepath.Join(dir, "nowhere")}, Vocab: 300}}
}

// TestFinishOfLedJobs: a daemon that is to finish ends a sweep and a pipeline with the last job that they lead, and begins no
// other step.
func TestFinishOfLedJobs(t *testing.T) {
	for name, x := range map[string]struct {
		s     func(dir string) Submission
		state queue.State
	}{
		"pipeline": {func(dir string) Submission {
			return inPipeline(dir, "p", Step{Name: "one", Config: text(t, "train.epochs=40")})
		}, queue.Finished},
		"sweep": {func(dir string) Submission {
			return Submission{Key: "s", Config: text(t, "train.epochs=40"), Parent: dir, Sweep: "sweep: {config: digits, vary: {seed: [3]}}"}
		}, queue.Finished},
		"middle": {func(dir string) Submission {
			return inPipeline(dir, "m", Step{Name: "one", Config: text(t, "train.epochs=40")},
				Step{Name: "two", Work: &queue.Work{Kind: queue.WorkEval}, Inputs: []StepInput{{"one", queue.AsRun}}})
		}, queue.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d, ended := openCounting(t, dir)
			done := make(chan error, 1)
			go func() { done <- d.Run(t.Context()) }()
			j, err := d.Submit(t.Context(), x.s(dir))
			if err != nil {
				t.Fatal(err)
			}
			running{d, nil}.until(t, j.ID, func(v View) bool { return v.State == queue.Running })
			d.Finish()
			if err := <-done; err != nil {
				t.Error(err)
			}
			views := d.Views()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			want := once(2)
			if views[0].State != x.state || views[1].State != queue.Finished {
				t.Errorf("job 1 is %s (%s), and job 2 %s", views[0].State, views[0].Where, views[1].State)
			}
			if x.state != queue.Finished {
				delete(want, 1)
				for _, v := range []View{views[0], views[2]} {
					if v.State != queue.Waiting || v.Where != "the daemon begins no more jobs" {
						t.Errorf("job %d is %s: %s", v.ID, v.State, v.Where)
					}
				}
			}
			if !maps.Equal(ended, want) {
				t.Errorf("Ended heard of %v, expected %v", ended, want)
			}
		})
	}
}

// TestEndedOfLedJobs: Ended hears once of each job that ends with the pipeline that is cancelled, and of each trial that is out.
func TestEndedOfLedJobs(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		dir := t.TempDir()
		d, ended := openCounting(t, dir)
		j, err := d.Submit(t.Context(), pipelineIn(t, dir, ""))
		if err == nil {
			_, err = d.Want(j.ID, queue.Cancel)
		}
		if err := errors.Join(err, d.Close()); err != nil {
			t.Fatal(err)
		}
		if want := once(8); !maps.Equal(ended, want) {
			t.Errorf("Ended heard of %v, expected %v", ended, want)
		}
	})
	t.Run("out", func(t *testing.T) {
		dir := t.TempDir()
		d, ended := openCounting(t, dir)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		j, err := d.Submit(t.Context(), Submission{Key: "s", Config: text(t, "train.epochs=9"), Parent: dir,
			Sweep: "sweep: {config: digits, vary: {optimizer.lr: [0.01, 0.001, 0.0001]}, halving: true}"})
		if err != nil {
			t.Fatal(err)
		}
		running{d, nil}.until(t, j.ID, func(v View) bool { return v.State == queue.Finished })
		cancel()
		if err := errors.Join(<-done, d.Close()); err != nil {
			t.Error(err)
		}
		if want := once(4); !maps.Equal(ended, want) {
			t.Errorf("Ended heard of %v, expected %v", ended, want)
		}
	})
}

// TestResumeBehindSweep: what is wanted of a pipeline is not wanted of the failed trials of a sweep of it that has finished:
// another best trial would come too late.
func TestResumeBehindSweep(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	bad := missingText(dir)
	bad.Inputs = []StepInput{{"base", queue.AsInit}}
	j, err := d.Submit(t.Context(), inPipeline(dir, "p",
		Step{Name: "base", Config: text(t, "train.epochs=1"), Sweep: "sweep: {config: digits, vary: {optimizer.lr: [0.1, 1e30]}}"}, bad))
	if err != nil {
		t.Fatal(err)
	}
	failed := func(id int, attempts int) {
		t.Helper()
		if v := d.await(t, id); v.State != queue.Failed || len(v.Attempts) != attempts {
			t.Errorf("job %d is %s after %d attempts: %s", id, v.State, len(v.Attempts), v.Where)
		}
	}
	trial := j.ID + 4
	failed(j.ID, 1)
	failed(trial, 1)
	if _, err := d.Want(j.ID, queue.Run); err != nil {
		t.Fatal(err)
	}
	failed(j.ID+2, 2)
	failed(j.ID, 2)
	failed(trial, 1)

	// A pipeline that has finished stays so; the sweep itself can go on with that trial.
	whole, err := d.Submit(t.Context(), inPipeline(dir, "q", Step{Name: "base", Config: text(t, "train.epochs=1"), Sweep: "sweep: {config: digits, vary: {optimizer.lr: [0.1, 1e30]}}"}))
	if err != nil {
		t.Fatal(err)
	}
	if v := d.await(t, whole.ID); v.State != queue.Finished {
		t.Fatal(v.Where)
	}
	if j, err := d.Want(whole.ID, queue.Run); !errors.Is(err, queue.ErrState) {
		t.Errorf("a finished pipeline is %s, %v", j.State, err)
	}
	failed(whole.ID+3, 1)
	if j, err := d.Want(whole.ID+1, queue.Run); err != nil || j.State != queue.Waiting {
		t.Errorf("its sweep is %s, %v", j.State, err)
	}
	d.until(t, whole.ID+3, func(v View) bool { return v.State == queue.Failed && len(v.Attempts) == 2 })
}

// TestRunOnlyBehindOthers: a pipeline whose steps wait for a job that does not run here does not keep RunOnly waiting.
func TestRunOnlyBehindOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	l, err := OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.Submit(t.Context(), Submission{Key: "first", Config: text(t), Parent: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := inPipeline(dir, "p", Step{Name: "one", Config: text(t, "train.epochs=1")})
	s.After = []int{first.ID}
	j, err := l.Submit(t.Context(), s)
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := OpenFor(j.ID, Options{Queue: path})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	v, err := d.RunOnly(ctx, j.ID)
	if err != nil || ctx.Err() != nil || v.State != queue.Waiting || v.Where != fmt.Sprintf("job %d (one): waits for job %d (digits)", j.ID+1, first.ID) {
		t.Errorf("the pipeline is %s: %s, %v, %v", v.State, v.Where, err, ctx.Err())
	}
}

// TestWhyLedJobsWait: a pipeline and a sweep that wait say which of their jobs does, and why.
func TestWhyLedJobsWait(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	first := d.ahead(t, dir, 3, text(t, "train.epochs=100000"))
	sweep := Step{Name: "base", Config: text(t, "train.epochs=1"), Sweep: "sweep: {config: digits, vary: {seed: [1, 2]}}"}
	j, err := d.Submit(t.Context(), inPipeline(dir, "p", Step{Name: "score", Work: &queue.Work{Kind: queue.WorkEval}, Inputs: []StepInput{{"base", queue.AsRun}}}, sweep))
	if err != nil {
		t.Fatal(err)
	}
	trial := j.ID + 3
	why := fmt.Sprintf("job %d (base): needs 1 cpu: after %d", trial, first)
	for _, id := range []int{j.ID, j.ID + 2} {
		d.until(t, id, func(v View) bool { return v.State == queue.Waiting && v.Where == why })
	}
	if _, err := d.Want(trial, queue.Pause); err != nil {
		t.Fatal(err)
	}
	d.until(t, j.ID, func(v View) bool { return v.Where == fmt.Sprintf("job %d (base) is paused", trial) })
	if !slices.ContainsFunc(d.Views(), func(v View) bool { return strings.HasPrefix(v.Where, "waits for job") }) {
		t.Error("the last step does not wait")
	}
}
