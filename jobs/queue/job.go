package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/jobs/order"
)

// State is what has become of a job.
type State string

// The states. Only a job that is Waiting can begin.
const (
	Waiting   State = "waiting"
	Running   State = "running"
	Paused    State = "paused"
	Finished  State = "finished"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Over reports whether the job has ended, for good unless somebody wants it again.
func (s State) Over() bool { return s == Finished || s == Failed || s == Cancelled }

// Wish is what somebody wants of a job.
type Wish string

// The wishes.
const (
	Run    Wish = "run"
	Pause  Wish = "pause"
	Cancel Wish = "cancel"
)

// Job is a job as the queue knows it.
type Job struct {
	ID       int
	Name     string // of the config
	Dir      string // the run folder, an absolute path
	Priority int
	Wish     Wish
	State    State

	// Needs are the devices that it takes, and Memory the most that it takes on one, in bytes.
	Needs  []order.Need
	Memory int64

	// Host is the most host memory that it takes beside its data, in bytes, and Data what that
	// takes. Jobs with the same DataID may have it in common.
	Host, Data int64
	DataID     string

	// Numerics are the kinds of the devices with their instructions, by the plan; of several kinds, also the blocks of each.
	Numerics string `json:",omitempty"`

	// Recipe is the hash of all that the weights follow from. Empty: it is not known, or they follow from several.
	Recipe string `json:",omitempty"`
	Again  bool   `json:",omitempty"` // it trains though another job with its recipe is finished
	As     int    `json:",omitempty"` // the job whose run this one is: that was finished before, so nothing was trained; 0: it has its own

	// Weights is the hash of the weights with which it began, if a file or another job gave them.
	Weights string `json:",omitempty"`

	// Saved is the newest checkpoint of the run when the job was finished; zero before, and of a run without one.
	Saved Saved `json:",omitzero"`

	// Predicted is what the whole job takes alone, by its plan. Length is the same as its steps
	// were measured, and Left what is left of that; Length is 0 before enough of them were.
	Predicted, Length, Left time.Duration

	// Steps are those of the whole run, by its plan; 0 for a sweep, and for a trial before its first attempt. Step
	// is how many were taken when the newest attempt ended, and Loss the newest that had come out then.
	Step, Steps int
	Loss        *float64

	Submitted time.Time
	Idle      time.Duration // how long it has been paused in all, up to PausedAt
	PausedAt  time.Time     // since when it is paused; zero if it is not

	// Suspect says that it ran or was planned when the process ended by a fault. It runs alone until
	// it has saved, or is planned alone. Untold says that it has failed since, and Blamed still has it.
	Suspect bool
	Untold  bool `json:",omitempty"`

	// Retries is how often it may still begin again after a failure.
	Retries  int
	Attempts []Attempt
	Events   []Event // the newest of them

	Sweep *Sweep `json:",omitempty"` // nil: it is no sweep
	Trial *Trial `json:",omitempty"` // nil: it is no trial of one

	Pipeline bool  `json:",omitempty"` // it has steps, which are jobs of their own, and its config is the text of the file
	StepOf   *Step `json:",omitempty"` // nil: it is no step of a pipeline
	Work     *Work `json:",omitempty"` // what it does in place of a training; nil: it trains, or leads jobs that do

	// Inputs are the jobs that have to finish before it begins, and Ready is when they had. Unplanned says with
	// which values its config is planned then; nil: it is planned.
	Inputs    []Input    `json:",omitempty"`
	Ready     time.Time  `json:",omitzero"`
	Unplanned *Unplanned `json:",omitempty"`
	Planning  *Attempt   `json:",omitempty"` // to plan it, while that lasts; nil: it is not planned now
	Init      string     `json:",omitempty"` // a source of the weights with which a training begins, as initial.ParseSource reads it
	Made      []Made     `json:",omitempty"` // the files that its work has made

	key string // of its submission
}

// Attempt is one time that the job was opened.
type Attempt struct {
	Began, Ended time.Time // Ended is zero while it lasts
	Devices      []string
	Alone        bool
	Machine      string // which start of the machine it was
	Error        string // empty if it did not fail
	Code         int    // the exit code that `trainer train` would have had
}

// Saved tells a checkpoint of a run folder from all others.
type Saved struct {
	ID   uint64
	Time time.Time
}

// Event is something that happened to a job.
type Event struct {
	At   time.Time
	What string
}

// Key is that of its submission.
func (j *Job) Key() string { return j.key }

// keys are those of all submissions that it answers.
func (j *Job) keys() []string {
	keys := []string{j.key}
	if j.Sweep != nil {
		for _, e := range j.Sweep.Submitted {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// Age is how long ago the job was submitted, without the time in which it was
// paused or waited for inputs.
func (j *Job) Age(now time.Time) time.Duration {
	since := j.ready()
	if since.IsZero() {
		return 0
	}
	age := now.Sub(since) - j.Idle
	if !j.PausedAt.IsZero() {
		age -= now.Sub(j.PausedAt)
	}
	return max(age, 0)
}

// ready is when the job could have begun; zero while it waits for inputs.
func (j *Job) ready() time.Time {
	if len(j.Inputs) > 0 {
		return j.Ready
	}
	return j.Submitted
}

// WaitsSince is when a waiting job would have begun to wait if it had waited without a break: when it could have begun, and later
// by the time in which it was paused or, by its measured speed, trained. It is zero for a job in another state, and for one that
// waits for inputs.
func (j *Job) WaitsSince() time.Time {
	since := j.ready()
	if j.State != Waiting || since.IsZero() {
		return time.Time{}
	}
	return since.Add(j.Idle + max(0, j.Length-j.Left))
}

// open is the attempt that lasts, or nil.
func (j *Job) open() *Attempt {
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Ended.IsZero() {
		return &j.Attempts[n-1]
	}
	return nil
}

// lasting is the attempt that lasts, to train or to plan; nil: none does.
func (j *Job) lasting() *Attempt { return cmp.Or(j.open(), j.Planning) }

// Open reports whether an attempt lasts: the job runs, or was suspended.
func (j *Job) Open() bool { return j.open() != nil }

// Failure is the error of its last attempt.
func (j *Job) Failure() string {
	if n := len(j.Attempts); n > 0 {
		return j.Attempts[n-1].Error
	}
	return ""
}

// Code is the exit code of its last attempt.
func (j *Job) Code() int {
	if n := len(j.Attempts); n > 0 {
		return j.Attempts[n-1].Code
	}
	return 0
}

// Bounds of a record, so that a job that is suspended for days does not fill the file.
const (
	mostEvents   = 64
	mostAttempts = 64
)

func (j *Job) note(now time.Time, format string, args ...any) {
	j.Events = newest(append(j.Events, Event{now, fmt.Sprintf(format, args...)}), mostEvents)
}

func newest[T any](list []T, most int) []T {
	if len(list) > most {
		list = slices.Delete(list, 0, len(list)-most)
	}
	return list
}

// enter changes the state, and counts the time in which the job is paused.
func (j *Job) enter(s State, now time.Time) {
	if s == j.State {
		return
	}
	if j.State == Paused {
		j.Idle += max(now.Sub(j.PausedAt), 0)
		j.PausedAt = time.Time{}
	}
	if s == Paused {
		j.PausedAt = now
	}
	j.State, j.Untold = s, false
	j.note(now, "%s", s)
}

// clone is a copy that shares nothing with j.
func (j *Job) clone() *Job {
	c := *j
	c.Needs, c.Attempts, c.Events = slices.Clone(j.Needs), slices.Clone(j.Attempts), slices.Clone(j.Events)
	for i := range c.Attempts {
		c.Attempts[i].Devices = slices.Clone(c.Attempts[i].Devices)
	}
	if j.Planning != nil {
		a := *j.Planning
		c.Planning = &a
	}
	c.Trial = j.Trial.clone() // a sweep never changes: another one takes its place
	return &c
}
