package queue

import (
	"fmt"
	"slices"
	"time"
)

// Sweep is what makes a job a sweep. It never runs itself: its trials are jobs of their own.
type Sweep struct {
	Text            string        // as configs.ParseSweep reads it; the job's config is that of all trials
	Steps, Boundary int           // of its longest trial, by the plan
	Each            time.Duration // that the longest trial takes by its plan
}

// Trial is what makes a job a trial of a sweep.
type Trial struct {
	Sweep    int       // the job of the sweep
	Number   int       // from 1 on
	Settings []Setting // the values of the keys that vary
	Rung     int       // up to which it is to train: see package jobs/sweep
	Share    float64   // of the whole run, up to that rung: about

	Values      []*float64 // the sweep's metric at each rung that it has reached; nil: it is not finite
	Step, Steps int        // at the newest of these rungs, and of the whole run; 0 before the first
	Ended       bool       // it was complete at the newest rung
	Out         bool       // others are better, and it does not go on
}

// Setting is the value of a key, as --set takes it.
type Setting struct{ Key, Value string }

// Resting reports whether the job is a trial that has reached the rung up to which it is to train.
func (j *Job) Resting() bool { return j.Trial != nil && len(j.Trial.Values) > j.Trial.Rung }

// Reached is what a trial has at the end of an attempt that got it to its rung.
type Reached struct {
	Value       *float64 // of the sweep's metric; nil: it is not finite
	Step, Steps int      // taken, and of the whole run
}

// reach keeps what a trial has reached. complete says that it has no step left.
func (t *Trial) reach(r *Reached, complete bool) {
	if t == nil || r == nil {
		return
	}
	if len(t.Values) <= t.Rung {
		t.Values = append(t.Values, r.Value)
	}
	t.Step, t.Steps, t.Ended = r.Step, r.Steps, complete
}

func (t *Trial) clone() *Trial {
	if t == nil {
		return nil
	}
	c := *t
	c.Settings, c.Values = slices.Clone(t.Settings), slices.Clone(t.Values)
	return &c
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

// Promote lets a trial that rests go on to a further rung, which is at that share of the whole run.
func (q *Queue) Promote(id, rung int, share float64) (Job, error) {
	return q.request(id, func(j *Job, now time.Time) error {
		if !j.Resting() || j.State != Waiting {
			return fmt.Errorf("%w: job %d is %s, and no trial that rests", ErrState, id, j.State)
		}
		j.Trial.Rung, j.Trial.Share = rung, share
		j.note(now, "goes on, as one of the best at step %d", j.Trial.Step)
		return nil
	})
}

// Drop ends a trial that rests, since others are better.
func (q *Queue) Drop(id int) (Job, error) {
	return q.request(id, func(j *Job, now time.Time) error {
		if !j.Resting() || j.State.Over() {
			return fmt.Errorf("%w: job %d is %s, and no trial that rests", ErrState, id, j.State)
		}
		j.Trial.Out = true
		j.note(now, "out")
		j.enter(Finished, now)
		return nil
	})
}
