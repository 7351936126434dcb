package queue

import (
	"fmt"
	"slices"
	"time"
)

// Sweep is what makes a job a sweep. It never runs itself: its trials are jobs of their own.
type Sweep struct {
	Text            string        // with all trials, as configs.ParseSweep reads it; the job's config is that of all trials
	Steps, Boundary int           // of its longest trial, by the plan
	Each            time.Duration // that the longest trial takes by its plan

	AtOnce int `json:",omitempty"` // trials for which there are devices, when it was planned

	// Checkpoints and Files are the most bytes that the checkpoints of a trial, and its other files, take on the disk, and Disk what
	// all trials take at most if none fails. They are 0 in older queues.
	Checkpoints, Files, Disk int64 `json:",omitempty"`

	// Submitted are the submissions of a sweep to which trials were added: the first one, and those that added some.
	Submitted []Submitted `json:",omitempty"`
}

// Submitted is a submission of a sweep, with the text that it had.
type Submitted struct{ Key, Text string }

// Trial is what makes a job a trial of a sweep.
type Trial struct {
	Sweep    int       // the job of the sweep
	Number   int       // from 1 on
	Settings []Setting // the values of the keys that vary
	Rung     int       // up to which it is to train: see package jobs/sweep
	Share    float64   // of the whole run, up to that rung: about

	Values      []*float64 // the sweep's metric at each rung that it has reached; nil: it is not finite
	At          []int      `json:",omitempty"` // the step of each of these rungs; older queues lack it
	Step, Steps int        // at the newest of these rungs, and of the whole run; 0 before the first
	Boundary    int        `json:",omitempty"` // steps between the boundaries of the run; 0 before the first rung
	Ended       bool       // it was complete at the newest rung
	Out         bool       // others are better, and it does not go on
	Gives       bool       `json:",omitempty"` // it is to have the weights, too, where another job had its values: others begin with them
}

// Setting is the value of a key, as --set takes it.
type Setting struct{ Key, Value string }

// Resting reports whether the job is a trial that has reached the rung up to which it is to train.
func (j *Job) Resting() bool { return j.Trial != nil && len(j.Trial.Values) > j.Trial.Rung }

// Reached is what a trial has at the end of an attempt that got it to its rung.
type Reached struct {
	Value       *float64 // of the sweep's metric; nil: it is not finite
	Step, Steps int      // taken, and of the whole run
	Boundary    int      // steps between boundaries
}

// reach keeps what a trial has reached. complete says that it has no step left.
func (t *Trial) reach(r *Reached, complete bool) {
	if t == nil || r == nil {
		return
	}
	if len(t.Values) <= t.Rung {
		if len(t.At) == len(t.Values) {
			t.At = append(t.At, r.Step)
		}
		t.Values = append(t.Values, r.Value)
	}
	t.Step, t.Steps, t.Boundary, t.Ended = r.Step, r.Steps, r.Boundary, complete
}

func (t *Trial) clone() *Trial {
	if t == nil {
		return nil
	}
	c := *t
	c.Settings, c.Values, c.At = slices.Clone(t.Settings), slices.Clone(t.Values), slices.Clone(t.At)
	return &c
}

// Extend gives a sweep more trials; with is the sweep with them, and length what all take by the plan. One that has ended goes
// on. It answers a submission with that key and text from now on. With no more trials, it does no more.
func (q *Queue) Extend(id int, with *Sweep, length time.Duration, s Submitted) (Job, error) {
	j, err := q.request(id, func(j *Job, now time.Time) error {
		if j.Sweep == nil || j.State == Failed || j.State == Cancelled {
			return fmt.Errorf("%w: job %d is %s, and no sweep that can go on", ErrState, id, j.State)
		}
		of := *with
		of.Submitted = slices.Clone(j.Sweep.Submitted)
		if of.Submitted == nil {
			of.Submitted = []Submitted{{j.key, j.Sweep.Text}}
		}
		of.Submitted = append(of.Submitted, s)
		what := "more trials"
		if of.Text == j.Sweep.Text {
			what = "submitted again"
		}
		j.Sweep, j.Predicted = &of, length
		j.note(now, "%s", what)
		if j.State == Finished {
			j.enter(Waiting, now)
		}
		return nil
	})
	if err == nil {
		q.mu.Lock()
		q.keys[s.Key] = id
		q.mu.Unlock()
	}
	return j, err
}

// textOf is the text of the sweep that the submission with the key had.
func (s *Sweep) textOf(key string) string {
	for _, e := range s.Submitted {
		if e.Key == key {
			return e.Text
		}
	}
	return s.Text
}

// hasFailed says whether the job is a sweep of which a trial has failed.
func (q *Queue) hasFailed(j *Job) bool {
	return j.Sweep != nil && slices.ContainsFunc(q.family(j)[1:], func(id int) bool { return q.jobs[id].State == Failed })
}

// goOn are the jobs that are over and go on with another one: the sweep of a trial, which takes in what that reaches, and the
// pipelines that failed.
func (q *Queue) goOn(j *Job) (list []int) {
	id := j.ID
	if of := q.jobs[j.Lead()]; j.Trial != nil && of != nil && (of.State == Finished || of.State == Failed) {
		id = of.ID
		list = append(list, id)
	}
	return append(list, q.behind(id)...)
}

// join gives a new trial what is wanted of its sweep.
func (q *Queue) join(j *Job) error {
	if j.Trial == nil {
		return nil
	}
	sweep, err := q.job(j.Trial.Sweep)
	if err != nil {
		return err
	}
	j.follow(sweep)
	return nil
}

// Promotion lets a trial that rests go on to a further rung.
type Promotion struct {
	Job, Rung int
	Share     float64 // of the whole run, up to that rung
	Dir       string  // its run folder, if it has none of its own yet
	As        *Result // what another job has that has been there before; nil: none has, and the trial trains
}

// Promote lets trials go on: all of them, or none.
func (q *Queue) Promote(list ...Promotion) ([]Job, error) {
	ids := make([]int, len(list))
	for i := range list {
		ids[i] = list[i].Job
	}
	return q.requestEach(ids, func(i int, j *Job, now time.Time) error {
		p := &list[i]
		if !j.Resting() || j.State != Waiting {
			return fmt.Errorf("%w: job %d is %s, and no trial that rests", ErrState, p.Job, j.State)
		}
		j.Trial.Rung, j.Trial.Share = p.Rung, p.Share
		j.note(now, "goes on, as one of the best at step %d", j.Trial.Step)
		switch {
		case p.As != nil:
			j.reachAs(p.As, now)
		case j.As != 0:
			j.As, j.Dir, j.Step, j.Loss = 0, p.Dir, 0, nil
		}
		return nil
	})
}

// Give lets a trial begin after all that was as another job, since its sweep gives its weights to others: if that job has them,
// it is as that one again, and otherwise it trains, in dir.
func (q *Queue) Give(id int, dir string) (Job, error) {
	return q.request(id, func(j *Job, now time.Time) error {
		if j.Trial == nil || j.As == 0 || j.State != Finished || !j.Resting() {
			return fmt.Errorf("%w: job %d is %s, and no trial that was trained before", ErrState, id, j.State)
		}
		t := j.Trial
		t.Gives, t.Ended, t.Values, t.At = true, false, t.Values[:t.Rung], t.At[:min(t.Rung, len(t.At))]
		j.As, j.Dir, j.Step, j.Loss, j.Saved = 0, dir, 0, nil, Saved{}
		j.note(now, "is to give its weights to others")
		j.enter(idle(j.Wish), now)
		return nil
	})
}

// Drop ends trials that rest, since others are better: all of them, or none.
func (q *Queue) Drop(ids ...int) ([]Job, error) {
	return q.requestEach(ids, func(_ int, j *Job, now time.Time) error {
		if !j.Resting() || j.State.Over() {
			return fmt.Errorf("%w: job %d is %s, and no trial that rests", ErrState, j.ID, j.State)
		}
		j.Trial.Out = true
		j.note(now, "out")
		j.enter(Finished, now)
		return nil
	})
}
