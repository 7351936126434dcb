package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// recipeOf is the hash of all that a job's weights follow from, and with them its metrics and which snapshots stay: the
// config's outcome, the fingerprint of its data, the kinds and instructions of its devices (of several kinds, also the blocks of
// each), the source of the program, and the hashes of what other jobs and files give it. The step to which a trial of a
// sweep trains is no part of it: the steps before do not depend on it. It is empty where the program or the data is not known.
func recipeOf(c *configs.Config, data, numerics, program string, inputs ...string) (string, error) {
	if program == "" || data == "" || numerics == "" {
		return "", nil
	}
	outcome, err := c.Outcome()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, part := range append([]string{string(outcome), data, numerics, program}, inputs...) {
		fmt.Fprintf(h, "%d\n", len(part))
		io.WriteString(h, part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// recipe is recipeOf for a job or, for a trial, for its sweep. A file that an input has made counts by what is in it, since each
// pipeline has its own. init is the hash of the weights that the job begins with, if those are given.
func (d *desk) recipe(j *queue.Job, c *configs.Config, data, numerics, init string) (string, error) {
	given := j.Init != ""
	var inputs []string
	for _, in := range j.Inputs {
		given = given || in.As == queue.AsInit
		if in.As != queue.AsTokenizer {
			continue
		}
		of, err := d.queue.Job(in.Job)
		if err != nil {
			return "", fmt.Errorf("input of the job: %w", err)
		}
		for _, m := range of.Made {
			if m.Path == c.Data.Tokenizer {
				other := *c
				other.Data.Tokenizer = ""
				c = &other
				inputs = append(inputs, in.As+" "+m.SHA256)
			}
		}
	}
	if given && init == "" { // it began in a program that did not know
		return "", nil
	}
	if given {
		inputs = append(inputs, queue.AsInit+" "+init)
	}
	return recipeOf(c, data, numerics, d.program, inputs...)
}

// numericsOf are the kinds and instructions of a run's devices.
func numericsOf(run *berth.Run) (string, error) {
	prints, err := run.Fingerprints()
	return prints["numerics"], err
}

// byRecipe has the jobs with each recipe, by number.
func byRecipe(list []queue.Job) map[string][]*queue.Job {
	jobs := map[string][]*queue.Job{}
	for i := range list {
		if recipe := list[i].Recipe; recipe != "" {
			jobs[recipe] = append(jobs[recipe], &list[i])
		}
	}
	return jobs
}

// finishedAs finds a finished one among jobs with the same recipe, whose run folder still has what it had then; nil: there is none.
func finishedAs(ctx context.Context, same []*queue.Job) *queue.Result {
	for _, j := range same {
		if complete(j) && whole(ctx, j) {
			return &queue.Result{Complete: true, As: j.ID, Dir: j.Dir, Saved: j.Saved, Step: j.Step, Steps: j.Steps, Loss: j.Loss}
		}
	}
	return nil
}

// complete says whether a job has trained to its end. A trial that is out has not.
func complete(j *queue.Job) bool {
	return j.State == queue.Finished && j.Sweep == nil && (j.Trial == nil || j.Trial.Ended)
}

// whole says whether the newest checkpoint in a finished job's run folder is the one that was there at its end, and
// every byte of it and of the best one is as it was written.
func whole(ctx context.Context, j *queue.Job) bool {
	if j.Saved.ID == 0 {
		return false
	}
	m, err := rundir.Verify(ctx, j.Dir)
	return err == nil && m.ID == j.Saved.ID && m.Time.Equal(j.Saved.Time)
}

// trialAs finds what a trial of a sweep is to reach at a step, among jobs with the same recipe, in a trial that was there; nil:
// none was. step finds the step from the length of the whole run and the steps between its boundaries.
func trialAs(same []*queue.Job, metric string, step func(steps, boundary int) int) *queue.Result {
	for _, j := range same {
		if j.Trial == nil || len(j.Trial.At) == 0 || len(j.Trial.At) != len(j.Trial.Values) {
			continue
		}
		t := j.Trial
		at := rungAt(t, step(t.Steps, t.Boundary))
		if at < 0 || !recorded(j, metric) {
			continue
		}
		r := &queue.Result{As: j.ID, Dir: j.Dir, Saved: j.Saved, Complete: t.Ended && at == len(t.At)-1, Step: t.At[at], Steps: t.Steps}
		r.Reached = &queue.Reached{Value: t.Values[at], Step: t.At[at], Steps: t.Steps, Boundary: t.Boundary}
		return r
	}
	return nil
}

// rungAt is the rung of a trial at a step; -1: it has none. A trial that ended early has its last one there.
func rungAt(t *queue.Trial, step int) int {
	for i, at := range t.At {
		if at == step || at < step && t.Ended && i == len(t.At)-1 {
			return i
		}
	}
	return -1
}

// recorded says whether a trial's run folder is as the trial left it, by the end of its metrics. Its checkpoints may be
// deleted.
func recorded(j *queue.Job, metric string) bool {
	t := j.Trial
	last, ok := rundir.LastBoundary(j.Dir)
	if end := len(t.At) - 1; ok && last.Step == t.At[end] {
		v, finite := last.Values[metric]
		return t.Values[end] == nil && !finite || t.Values[end] != nil && v == *t.Values[end]
	}
	return ok && !j.State.Over() && last.Step > t.Step // it goes on
}

// newest is the newest checkpoint of a run folder; zero if it has none.
func newest(dir string) queue.Saved {
	m, err := rundir.Newest(dir)
	if err != nil {
		return queue.Saved{}
	}
	return queue.Saved{ID: m.ID, Time: m.Time}
}

// as is what one of the jobs with the same recipe has at the step to which a trial is to train; nil: none has been there.
func (t *trial) as(ctx context.Context, same []*queue.Job, run *berth.Run) *queue.Result {
	step, total := t.stepOf(run.TotalSteps(), boundaryOf(run)), run.TotalSteps()
	if r := trialAs(same, t.sweep.Metric, t.stepOf); r != nil && (!r.Complete || !t.gives || whole(ctx, &queue.Job{Dir: r.Dir, Saved: r.Saved})) {
		return r
	}
	r := finishedAs(ctx, same)
	if r == nil {
		return nil
	}
	var at, last rundir.Record
	_, err := rundir.ReadMetrics(ctx, r.Dir, func(x rundir.Record) error {
		if x.Boundary {
			if x.Step <= step {
				at = x
			}
			last = x
		}
		return nil
	})
	r.Complete = at.Step == last.Step
	if err != nil || at.Step == 0 || at.Step < step && !r.Complete {
		return nil
	}
	r.Step, r.Steps, r.Loss = at.Step, total, nil
	r.Reached = &queue.Reached{Step: at.Step, Steps: total, Boundary: boundaryOf(run)}
	if v, ok := at.Values[t.sweep.Metric]; ok {
		r.Reached.Value = &v
	}
	return r
}
