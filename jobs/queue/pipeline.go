package queue

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Step is what makes a job a step of a pipeline.
type Step struct {
	Pipeline int    // the job of the pipeline
	Name     string // in its file
}

// Input is a job that has to finish before another one begins.
type Input struct {
	Job int
	As  string // what it gives: AsInit or another; "": nothing
}

// What an input gives: the values of Input.As. Those of the tokenizer are the key of the config that has it.
const (
	AsInit      = "init"           // the weights with which a training begins
	AsRun       = "run"            // a run to evaluate or export
	AsTokenizer = "data.tokenizer" // the file of a tokenizer
)

// Work is what a job does that trains nothing.
type Work struct {
	Kind string // WorkTokenizer or another

	Texts []string `json:",omitempty"` // tokenizer: files and folders
	Vocab int      `json:",omitempty"` // tokenizer: tokens
	Field string   `json:",omitempty"` // tokenizer: of JSON lines, the key of the text

	Run    string   `json:",omitempty"` // eval, export: the run folder, unless an input gives it
	Set    []string `json:",omitempty"` // eval: what wins over the run's config, as --set takes it
	Format string   `json:",omitempty"` // export
	Out    string   `json:",omitempty"` // export: the new file or folder
}

// The values of Work.Kind.
const (
	WorkTokenizer = "tokenizer"
	WorkEval      = "eval"
	WorkExport    = "export"
)

// Unplanned has what wins over the config of a job that is planned later, as --set takes it.
type Unplanned struct{ Set []string }

// Made is a file or a folder that a job's work has made.
type Made struct {
	Path   string
	SHA256 string // in hexadecimal; of a folder, that of its files with their names
}

// Leads reports whether the job runs others and never itself: it is a sweep or a pipeline.
func (j *Job) Leads() bool { return j.Sweep != nil || j.Pipeline }

// Waits reports whether the job waits for its inputs.
func (j *Job) Waits() bool { return len(j.Inputs) > 0 && j.Ready.IsZero() }

// Lead is the sweep of a trial, or the pipeline of a step; 0: it is neither.
func (j *Job) Lead() int {
	switch {
	case j.Trial != nil:
		return j.Trial.Sweep
	case j.StepOf != nil:
		return j.StepOf.Pipeline
	}
	return 0
}

// follow gives a job what is wanted of the one that leads it.
func (j *Job) follow(lead *Job) {
	j.Priority, j.Retries, j.Again, j.Wish, j.State = lead.Priority, lead.Retries, lead.Again, lead.Wish, idle(lead.Wish)
}

// leads are the jobs that lead a job, the nearest first.
func (q *Queue) leads(j *Job) (ids []int) {
	for id := j.Lead(); q.jobs[id] != nil; id = q.jobs[id].Lead() {
		ids = append(ids, id)
	}
	return ids
}

// LedBy reports whether a job is the other, or is led by it.
func (q *Queue) LedBy(j *Job, lead int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return j.ID == lead || slices.Contains(q.leads(j), lead)
}

// family is a job and those that it leads.
func (q *Queue) family(j *Job) []int {
	ids := []int{j.ID}
	if !j.Leads() {
		return ids
	}
	for _, id := range slices.Sorted(maps.Keys(q.jobs)) {
		if slices.Contains(q.leads(q.jobs[id]), j.ID) {
			ids = append(ids, id)
		}
	}
	return ids
}

// behind are the pipelines that failed since none of their steps could begin while a job had failed: it is a step of
// theirs, or an input of one.
func (q *Queue) behind(id int) (list []int) {
	on := []int{id}
	for found := true; found; {
		found = false
		for _, p := range slices.Sorted(maps.Keys(q.jobs)) {
			if j := q.jobs[p]; j.Pipeline && j.State == Failed && j.Wish == Run && !slices.Contains(on, p) && q.needs(p, on) {
				on, list, found = append(on, p), append(list, p), true
			}
		}
	}
	return list
}

// needs reports whether one of the jobs is a step of a pipeline, or an input of one.
func (q *Queue) needs(pipeline int, jobs []int) bool {
	for id, j := range q.jobs {
		if j.Lead() != pipeline {
			continue
		}
		if slices.Contains(jobs, id) || slices.ContainsFunc(j.Inputs, func(in Input) bool { return slices.Contains(jobs, in.Job) }) {
			return true
		}
	}
	return false
}

// StepSubmission is a step of a pipeline that is submitted.
type StepSubmission struct {
	Submission
	Name string
	Of   []StepInput
}

// StepInput is a step of the same pipeline that has to finish before another one begins.
type StepInput struct {
	Step int // its index
	As   string
}

// SubmitPipeline adds a pipeline and its steps, all or none. What is wanted of the steps, their priority and their
// retries are those of the pipeline.
func (q *Queue) SubmitPipeline(s Submission, steps []StepSubmission) (Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if id, ok := q.keys[s.Key]; ok {
		return q.again(id, s)
	}
	now := time.Now()
	lead := s.job(now)
	list, configs := []*Job{lead}, [][]byte{s.Config}
	for _, x := range steps {
		j := x.job(now)
		j.follow(lead)
		if err := q.check(j); err != nil {
			return Job{}, fmt.Errorf("step %s: %w", x.Name, err)
		}
		list, configs = append(list, j), append(configs, x.Config)
	}
	err := q.file.add(list, configs, func() {
		for i, x := range steps {
			j := list[i+1]
			j.StepOf = &Step{lead.ID, x.Name}
			for _, in := range x.Of {
				j.Inputs = append(j.Inputs, Input{list[in.Step+1].ID, in.As})
			}
		}
	})
	if err != nil {
		q.why = err
		return Job{}, fmt.Errorf("pipeline %s is not queued: %w", s.Name, err)
	}
	for _, j := range list {
		q.keys[j.key] = j.ID
		q.set(j)
	}
	return *lead, nil
}

// check refuses inputs that never finish.
func (q *Queue) check(j *Job) error {
	for _, in := range j.Inputs {
		of, err := q.job(in.Job)
		if err != nil {
			return err
		}
		if of.State == Cancelled {
			return fmt.Errorf("%w: job %d is cancelled, so a job after it would never begin", ErrState, in.Job)
		}
	}
	return nil
}

// Plan notes that a job is planned whose inputs have finished, before it is. alone says that nothing else runs meanwhile.
func (q *Queue) Plan(id int, alone bool) (Job, error) {
	return q.request(id, func(j *Job, now time.Time) error {
		if !j.Waits() || j.State != Waiting || j.Planning != nil {
			return fmt.Errorf("%w: job %d is %s, and is not to be planned", ErrState, id, j.State)
		}
		j.Planning = &Attempt{Began: now, Alone: alone, Machine: machine()}
		return nil
	})
}

// Planned notes that a job is planned no more, whatever has come of it.
func (q *Queue) Planned(id int) {
	q.mu.Lock()
	j := q.jobs[id]
	known := j == nil || j.Planning == nil
	q.mu.Unlock()
	if known {
		return
	}
	q.report(id, func(j *Job, _ time.Time) { j.Planning = nil })
}

// Prepare notes that the inputs of a job have finished. plan has what was found out of a job that was unplanned; nil: it
// was planned.
func (q *Queue) Prepare(id int, plan *Submission) (Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, err := q.job(id)
	if err != nil {
		return Job{}, err
	}
	if !j.Waits() || j.State != Waiting {
		return Job{}, fmt.Errorf("%w: job %d is %s, and does not wait for inputs", ErrState, id, j.State)
	}
	next, now := j.clone(), time.Now()
	next.Ready, next.Idle = now, 0
	next.Planning, next.Suspect = nil, false
	var config []byte
	if plan != nil {
		next.plan(plan)
		config = plan.Config
	}
	next.note(now, "its inputs are there")
	if err := q.file.plan(next, config); err != nil {
		q.why = err
		return Job{}, fmt.Errorf("job %d stays as it was: %w", id, err)
	}
	q.set(next)
	delete(q.late, id)
	return *next, nil
}

// plan takes in what a plan has found out.
func (j *Job) plan(s *Submission) {
	j.Needs, j.Predicted, j.Steps = slices.Clone(s.Needs), s.Length, s.Steps
	j.Memory, j.Host, j.Data, j.DataID, j.Numerics = s.Memory, s.Host, s.Data, s.DataID, s.Numerics
	j.Sweep, j.Unplanned = s.Sweep, nil
}

// Settle ends a job that leads others: it failed for that reason, with that exit code, or is finished, and what says how. Its
// causes are jobs that failed or were cancelled. It goes on if one of these did so meanwhile.
func (q *Queue) Settle(id int, causes []int, failed error, code int, what string) (Job, error) {
	return q.request(id, func(j *Job, now time.Time) error {
		if !j.Leads() || j.State.Over() {
			return fmt.Errorf("%w: job %d is %s, and leads no jobs that go on", ErrState, id, j.State)
		}
		for _, cause := range causes {
			if by := q.jobs[cause]; by != nil && by.State != Failed && by.State != Cancelled {
				return fmt.Errorf("%w: job %d goes on, and with it job %d", ErrState, cause, id)
			}
		}
		if failed == nil {
			j.note(now, "%s", what)
			j.enter(Finished, now)
			return nil
		}
		j.refused(failed, code, j.Submitted, now)
		return nil
	})
}

// Refuse ends a job that is not open, since it cannot begin. code is the exit code that `trainer train` would have had.
func (q *Queue) Refuse(id int, why error, code int) (Job, error) {
	return q.request(id, func(j *Job, now time.Time) error {
		if j.State != Waiting || j.Open() {
			return fmt.Errorf("%w: job %d is %s", ErrState, id, j.State)
		}
		began := now
		if j.Planning != nil {
			began = j.Planning.Began
		}
		j.Planning, j.Suspect = nil, false
		j.refused(why, code, began, now)
		return nil
	})
}

func (j *Job) refused(why error, code int, began, now time.Time) {
	j.Attempts = newest(append(j.Attempts, Attempt{Began: began, Ended: now, Machine: machine(), Error: why.Error(), Code: code}), mostAttempts)
	j.enter(Failed, now)
}

// needed refuses to forget jobs that others are behind. The trials of a sweep are what it gives.
func (q *Queue) needed(gone []*Job) error {
	for _, id := range slices.Sorted(maps.Keys(q.jobs)) {
		j := q.jobs[id]
		if j.State == Finished || j.State == Cancelled || slices.Contains(gone, j) {
			continue
		}
		for _, in := range j.Inputs {
			if slices.ContainsFunc(gone, func(g *Job) bool { return g.ID == in.Job || g.Trial != nil && g.Trial.Sweep == in.Job }) {
				return fmt.Errorf("%w: job %d needs what job %d gives: cancel it first", ErrState, j.ID, in.Job)
			}
		}
	}
	return nil
}
