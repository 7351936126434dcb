package queue

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth/jobs/order"
)

// The causes of errors.
var (
	ErrHeld    = errors.New("the queue is in use")
	ErrClosed  = errors.New("the queue is closed: the program that had it ends")
	ErrNoJob   = errors.New("no such job")
	ErrState   = errors.New("not in this state")
	ErrKey     = errors.New("the key of this submission belongs to another job")
	ErrFormat  = errors.New("the queue has a newer format")
	ErrDamaged = errors.New("the queue is damaged")
)

// Queue is an open queue. Its methods are safe for concurrent use.
type Queue struct {
	file *file

	mu   sync.Mutex
	jobs map[int]*Job // a job that is here never changes: another one takes its place
	keys map[string]int
	late map[int]bool // jobs that the file does not have as they are
	why  error        // why the disk takes no more; nil if it does, as far as is known
	cut  []int        // jobs that were open when the process before this one ended

	list  []Job        // the jobs by number, as Jobs gave them last
	fresh map[int]bool // jobs that list does not have as they are: new and changed ones, and those that are gone
}

// Submission is what is asked for by a submit.
type Submission struct {
	// Key tells this submission from others: one that is sent again with the same key
	// makes no second job.
	Key string

	Name     string
	Config   []byte // YAML, with all that was resolved where it was typed
	Dir      string
	Priority int
	Retries  int
	Needs    []order.Need
	Length   time.Duration // predicted
	Steps    int           // of the whole run
	Memory   int64
	Host     int64
	Data     int64
	DataID   string
	Numerics string
	Recipe   string
	Again    bool
	Sweep    *Sweep // of a sweep
	Trial    *Trial // of a trial; what is wanted of it, its priority, its retries and whether it trains again are those of its sweep

	Pipeline  bool
	Work      *Work
	Inputs    []Input
	Unplanned *Unplanned
	Init      string

	// Shapes are those of the model's parameters, by name. They say whether the weights of one step fit another, and are not kept.
	Shapes map[string]string

	// As is what another job has that has done the work before: see [Result]. nil: none has.
	As *Result
}

// job is the job that is asked for, without a number.
func (s *Submission) job(now time.Time) *Job {
	j := &Job{
		Name: s.Name, Dir: s.Dir, Priority: s.Priority, Retries: s.Retries, Wish: Run, State: Waiting, Submitted: now, key: s.Key,
		Trial: s.Trial.clone(), Pipeline: s.Pipeline, Work: s.Work, Inputs: slices.Clone(s.Inputs), Init: s.Init,
		Recipe: s.Recipe, Again: s.Again,
	}
	j.plan(s)
	j.Unplanned = s.Unplanned
	j.note(now, "submitted")
	return j
}

// Submit adds a job, which waits. It is on the disk when Submit returns without an error.
func (q *Queue) Submit(s Submission) (Job, error) {
	list, err := q.SubmitAll([]Submission{s})
	if err != nil {
		return Job{}, err
	}
	return list[0], nil
}

// SubmitAll is Submit of several jobs at once: all are queued, or none.
func (q *Queue) SubmitAll(list []Submission) ([]Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]Job, len(list))
	var added []*Job
	var configs [][]byte
	var places []int // of the added ones in list
	for i := range list {
		s := &list[i]
		if id, ok := q.keys[s.Key]; ok {
			j, err := q.again(id, *s)
			if err != nil {
				return nil, err
			}
			out[i] = j
			continue
		}
		j, err := q.newJob(s)
		if err != nil {
			return nil, err
		}
		added, configs, places = append(added, j), append(configs, s.Config), append(places, i)
	}
	if len(added) == 0 {
		return out, nil
	}
	if err := q.file.add(added, configs, func() {}); err != nil {
		q.why = err
		return nil, fmt.Errorf("job %s is not queued: %w", added[0].Name, err)
	}
	for i, j := range added {
		q.keys[j.key] = j.ID
		q.set(j)
		out[places[i]] = *j
	}
	return out, nil
}

// newJob is the job that a submission asks for, without its number.
func (q *Queue) newJob(s *Submission) (*Job, error) {
	j := s.job(time.Now())
	if err := errors.Join(q.join(j), q.check(j)); err != nil {
		return nil, err
	}
	if s.As != nil {
		j.reachAs(s.As, time.Now())
	}
	return j, nil
}

// Has reports whether a submission with that key was answered with a job that is still there.
func (q *Queue) Has(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.keys[key]
	return ok
}

// Again answers a submission whose key the queue has.
func (q *Queue) Again(s Submission) (Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	id, ok := q.keys[s.Key]
	if !ok {
		return Job{}, fmt.Errorf("%w: that of this submission was removed meanwhile", ErrNoJob)
	}
	return q.again(id, s)
}

// again answers a submission that was answered before.
func (q *Queue) again(id int, s Submission) (Job, error) {
	j := q.jobs[id]
	config, err := q.file.config(id)
	if err != nil {
		return Job{}, err
	}
	if string(config) != string(s.Config) || (j.Sweep == nil) != (s.Sweep == nil) || j.Pipeline != s.Pipeline || j.Sweep != nil && j.Sweep.textOf(s.Key) != s.Sweep.Text {
		return Job{}, fmt.Errorf("%w: job %d has another config: submit with a new key", ErrKey, id)
	}
	return *j, nil
}

// Jobs are all jobs, by number. Nobody may change them: the next call gives the same list if no job has changed meanwhile.
func (q *Queue) Jobs() []Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.fresh) == 0 {
		return q.list
	}
	list, old := make([]Job, 0, len(q.jobs)), q.list
	for _, id := range slices.Sorted(maps.Keys(q.fresh)) {
		at, found := slices.BinarySearchFunc(old, id, func(j Job, id int) int { return cmp.Compare(j.ID, id) })
		list = append(list, old[:at]...)
		if found {
			at++
		}
		old = old[at:]
		if j := q.jobs[id]; j != nil {
			list = append(list, *j)
		}
	}
	q.list = slices.Clip(append(list, old...))
	clear(q.fresh)
	return q.list
}

// set has a job take its place.
func (q *Queue) set(j *Job) { q.jobs[j.ID], q.fresh[j.ID] = j, true }

// Job is one job.
func (q *Queue) Job(id int) (Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, err := q.job(id)
	if err != nil {
		return Job{}, err
	}
	return *j, nil
}

// Config is the config of a job.
func (q *Queue) Config(id int) ([]byte, error) { return q.file.config(id) }

func (q *Queue) job(id int) (*Job, error) {
	if j := q.jobs[id]; j != nil {
		return j, nil
	}
	return nil, fmt.Errorf("%w: job %d", ErrNoJob, id)
}

// Want changes what is wanted of a job. One that is not open gets the state that follows from
// it at once; an open one goes on until whoever runs it has seen the wish. What is wanted of a sweep is wanted of
// its trials, so one that is finished can go on with those that failed, and what is wanted of a pipeline of its steps; a sweep of
// it is finished stays so. A sweep that is over goes on with a trial of it, and pipelines that failed with the job do. It returns
// the job, and then the others that have changed.
func (q *Queue) Want(id int, w Wish) ([]Job, error) {
	var behind []int
	with := func(j *Job) []int {
		if w == Run {
			behind = q.goOn(j)
		}
		return append(q.family(j), behind...)
	}
	return q.change(id, with, func(j *Job, now time.Time) error {
		if slices.Contains(behind, j.ID) {
			j.enter(Waiting, now)
			return nil
		}
		switch {
		case w != Run && w != Pause && w != Cancel:
			return fmt.Errorf("%w: %.20q is no wish: expected run, pause or cancel", ErrState, w)
		case j.ID != id && (j.State == Finished || q.settled(j, id)):
			return fmt.Errorf("%w: job %d, or what leads it, has ended", ErrState, j.ID)
		case j.State == Finished && (w != Run || !q.hasFailed(j)), j.State == Cancelled, j.State == Failed && w == Pause:
			return fmt.Errorf("%w: job %d is %s: %s", ErrState, j.ID, j.State, j.instead())
		case w == j.Wish && !j.State.Over():
			return nil
		case w == Run && j.State == Failed && q.taken(j) != 0:
			return fmt.Errorf("%w: the run folder of job %d is that of job %d by now: submit it again", ErrState, j.ID, q.taken(j))
		}
		j.Wish = w
		j.note(now, "%s is wanted", w)
		if !j.Open() {
			j.enter(idle(w), now)
		}
		return nil
	})
}

// instead is what can be done with a job of which something is wanted that cannot be.
func (j *Job) instead() string {
	if j.State == Failed {
		return fmt.Sprintf("it does not run; trainer jobs resume %d lets it go on, and trainer jobs cancel %d ends it", j.ID, j.ID)
	}
	return "it has ended for good; submit it again to train it"
}

// settled says whether the job that leads another one has ended for good, so that the other one is not needed, unless it is the
// job of which something is wanted.
func (q *Queue) settled(j *Job, wanted int) bool {
	lead := q.jobs[j.Lead()]
	return lead != nil && lead.ID != wanted && (lead.State == Finished || lead.State == Cancelled)
}

// taken is another job with the job's run folder that has not ended; 0 if there is none.
func (q *Queue) taken(j *Job) int {
	for _, other := range q.jobs {
		if other.ID != j.ID && other.Dir == j.Dir && other.As == 0 && !other.State.Over() {
			return other.ID
		}
	}
	return 0
}

// idle is the state of a job that is not open.
func idle(w Wish) State {
	switch w {
	case Pause:
		return Paused
	case Cancel:
		return Cancelled
	}
	return Waiting
}

// SetPriority changes the job's place in the line; of a sweep or a pipeline, that of its trials or steps.
func (q *Queue) SetPriority(id, priority int) (Job, error) {
	return first(q.change(id, q.family, func(j *Job, now time.Time) error {
		if j.State.Over() {
			return fmt.Errorf("%w: job %d is %s, so its priority counts no more", ErrState, j.ID, j.State)
		}
		j.Priority = priority
		j.note(now, "priority %d", priority)
		return nil
	}))
}

// Begin notes that an attempt begins, before it does. alone says that no other job runs meanwhile.
func (q *Queue) Begin(id int, devices []string, alone bool) (Job, error) {
	return q.request(id, func(j *Job, now time.Time) error {
		if j.State != Waiting || j.Open() {
			return fmt.Errorf("%w: job %d is %s and cannot begin", ErrState, id, j.State)
		}
		j.Attempts = newest(append(j.Attempts, Attempt{
			Began: now, Devices: slices.Clone(devices), Alone: alone, Machine: machine(),
		}), mostAttempts)
		j.enter(Running, now)
		return nil
	})
}

// Remove forgets a job, and the jobs that it leads. Their run folders stay.
func (q *Queue) Remove(id int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, err := q.job(id)
	if err != nil {
		return err
	}
	var gone []*Job
	for _, of := range q.family(j) {
		if gone = append(gone, q.jobs[of]); q.jobs[of].Open() {
			return fmt.Errorf("%w: job %d is open: cancel it first", ErrState, id)
		}
	}
	if err := q.needed(gone); err != nil {
		return err
	}
	if err := q.file.remove(gone...); err != nil {
		q.why = err
		return fmt.Errorf("job %d is kept: %w", id, err)
	}
	for _, j := range gone {
		delete(q.jobs, j.ID)
		q.fresh[j.ID] = true
		for _, key := range j.keys() {
			delete(q.keys, key)
		}
		delete(q.late, j.ID)
	}
	return nil
}

// request changes a job if the disk takes the change.
func (q *Queue) request(id int, change func(*Job, time.Time) error) (Job, error) {
	return first(q.requestEach([]int{id}, func(_ int, j *Job, now time.Time) error { return change(j, now) }))
}

// requestEach is request for several jobs: all are changed, or none.
func (q *Queue) requestEach(ids []int, change func(i int, j *Job, now time.Time) error) ([]Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var changed []*Job
	for i, id := range ids {
		j, err := q.job(id)
		if err != nil {
			return nil, err
		}
		next := j.clone()
		if err := change(i, next, time.Now()); err != nil {
			return nil, err
		}
		changed = append(changed, next)
	}
	return q.replace(changed)
}

// first is the first of jobs that were changed.
func first(list []Job, err error) (Job, error) {
	if err != nil {
		return Job{}, err
	}
	return list[0], nil
}

// change changes the first of some jobs, and of the others those that take the change. It returns those that it changed.
func (q *Queue) change(id int, some func(*Job) []int, change func(*Job, time.Time) error) ([]Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, err := q.job(id)
	if err != nil {
		return nil, err
	}
	var changed []*Job
	for i, id := range some(j) {
		next := q.jobs[id].clone()
		switch err := change(next, time.Now()); {
		case err == nil:
			changed = append(changed, next)
		case i == 0:
			return nil, err
		}
	}
	return q.replace(changed)
}

// replace has jobs take the place of the ones that were there, if the disk takes them.
func (q *Queue) replace(changed []*Job) (list []Job, err error) {
	if len(changed) == 0 {
		return nil, nil
	}
	if err := q.file.put(changed...); err != nil {
		q.why = err
		return nil, fmt.Errorf("job %d stays as it was: %w", changed[0].ID, err)
	}
	for _, next := range changed {
		q.set(next)
		delete(q.late, next.ID)
		list = append(list, *next)
	}
	return list, nil
}

// Stood notes that an open job was suspended, or goes on; length and left are what was measured so
// far, 0 for nothing.
func (q *Queue) Stood(id int, suspended bool, length, left time.Duration) {
	q.report(id, func(j *Job, now time.Time) {
		if !j.Open() {
			return
		}
		j.measured(length, left)
		if suspended {
			j.enter(Waiting, now)
		} else {
			j.enter(Running, now)
		}
	})
}

// Note adds to what has happened to a job.
func (q *Queue) Note(id int, text string) {
	q.report(id, func(j *Job, now time.Time) { j.note(now, "%s", text) })
}

// Saved notes that a job has a checkpoint of this attempt, and so is suspect no more. cleared says that
// it was.
func (q *Queue) Saved(id int) (cleared bool) {
	q.mu.Lock()
	j := q.jobs[id]
	known := j == nil || !j.Suspect
	q.mu.Unlock()
	if known {
		return false
	}
	q.report(id, func(j *Job, now time.Time) {
		j.Suspect = false
		if a := j.open(); a != nil {
			a.Alone = false
		}
		j.note(now, "it has saved, and other jobs may run beside it again")
	})
	return true
}

// Result is how an attempt ended.
type Result struct {
	// Complete says that the training has nothing left to do.
	Complete bool
	// Err is why it failed; nil if it is complete, or was stopped by a wish.
	Err error
	// Code is the exit code that `trainer train` would have had.
	Code int
	// Again says that another attempt may succeed: the failure does not follow from the job
	// alone. Outside says that it cannot follow from the job, as that of a full disk: another attempt
	// is none of its retries.
	Again, Outside bool
	// Length and Left are what the whole job takes, and what is left of it, as measured; 0: too
	// little was.
	Length, Left time.Duration
	// Step and Steps are the steps taken, and those of the whole run; Steps is 0 if the attempt did not begin. Loss is
	// the newest that came out, if one did.
	Step, Steps int
	Loss        *float64
	// Made are the files that a complete job's work has made.
	Made []Made
	// Reached says that a trial of a sweep has reached its rung, and with what; otherwise nil.
	Reached *Reached
	// Saved is the newest checkpoint of a run that is complete.
	Saved Saved
	// As is another job that has done the work before, so that nothing was trained, and Dir its run folder; 0: none has.
	As  int
	Dir string
}

// End notes that the attempt has ended, after its run folder has been closed. It returns what the job is then: the next
// request may change it.
func (q *Queue) End(id int, r Result) Job {
	return q.report(id, func(j *Job, now time.Time) {
		a := j.open()
		if a == nil {
			return
		}
		a.Ended, a.Code = now, r.Code
		j.measured(r.Length, r.Left)
		if r.As != 0 {
			j.reachAs(&r, now)
			return
		}
		j.stands(&r)
		j.Trial.reach(r.Reached, r.Complete)
		switch {
		case r.Complete:
			j.Made, j.Suspect = r.Made, false
			j.Saved = r.Saved
			j.enter(Finished, now)
		case r.Err == nil:
			j.enter(idle(j.Wish), now)
		default:
			a.Error = r.Err.Error()
			q.failed(j, r, now)
		}
	})
}

// reachAs notes that another job has done the work before. A trial of a sweep may have further rungs.
func (j *Job) reachAs(r *Result, now time.Time) {
	j.As, j.Dir = r.As, r.Dir
	j.stands(r)
	j.note(now, "as job %d in %s", r.As, r.Dir)
	j.Trial.reach(r.Reached, r.Complete)
	if r.Complete {
		j.Saved = r.Saved
		j.enter(Finished, now)
		return
	}
	j.enter(idle(j.Wish), now)
}

// stands keeps how far the job has come.
func (j *Job) stands(r *Result) {
	if r.Steps > 0 {
		j.Step, j.Steps = r.Step, r.Steps
	}
	j.Loss = cmp.Or(r.Loss, j.Loss)
}

// CutOff are the jobs that were open when the process before this one ended. How far they have come is that of the attempt before,
// unless StandsAt has said it since.
func (q *Queue) CutOff() (list []Job) {
	for _, j := range q.Jobs() {
		if slices.Contains(q.cut, j.ID) {
			list = append(list, j)
		}
	}
	return list
}

// StandsAt notes the steps that a job has taken, by its run folder.
func (q *Queue) StandsAt(id, step int) {
	q.report(id, func(j *Job, _ time.Time) { j.Step = step })
}

// Follow notes what the weights of an attempt follow from, before its first step; fresh says that it begins without a
// checkpoint, and weights is the hash of those that it was given to begin with, if it was. Those of a job whose attempts differ
// follow from no recipe.
func (q *Queue) Follow(id int, recipe, weights string, fresh bool) {
	q.mu.Lock()
	j := q.jobs[id]
	known := j == nil || j.Recipe == recipe && j.Weights == weights && (fresh || len(j.Attempts) > 1)
	q.mu.Unlock()
	if known {
		return
	}
	q.report(id, func(j *Job, _ time.Time) {
		j.Recipe, j.Weights = "", weights
		if fresh {
			j.Recipe = recipe
		}
	})
}

// measured keeps what was measured.
func (j *Job) measured(length, left time.Duration) {
	if length > 0 {
		j.Length, j.Left = length, left
	}
}

func (q *Queue) failed(j *Job, r Result, now time.Time) {
	j.note(now, "attempt failed: %v", r.Err)
	switch {
	case j.Wish != Run:
		j.enter(idle(j.Wish), now)
	case r.Outside:
		j.enter(Waiting, now)
	case r.Again && j.Retries > 0:
		j.Retries--
		j.enter(Waiting, now)
	default:
		j.enter(Failed, now)
	}
}

// report changes a job at once, and returns it. If the disk does not take it, it is late.
func (q *Queue) report(id int, change func(*Job, time.Time)) Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.jobs[id]
	if j == nil {
		return Job{}
	}
	next := j.clone()
	change(next, time.Now())
	q.set(next)
	q.late[id] = true
	_ = q.flush()
	return *next
}

// Flush writes what is late, and finds out whether the disk takes more again where it did not.
func (q *Queue) Flush() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.flush()
}

func (q *Queue) flush() error {
	if len(q.late) == 0 && q.why == nil {
		return nil
	}
	late := make([]*Job, 0, len(q.late))
	for _, id := range slices.Sorted(maps.Keys(q.late)) {
		late = append(late, q.jobs[id])
	}
	if err := q.file.put(late...); err != nil {
		q.why = err
		return err
	}
	clear(q.late)
	if q.why != nil { // the file may have had free pages for that much
		q.why = q.file.room()
	}
	return nil
}

// Full is why the disk takes no more: requests may be refused, and what has happened may not
// be on it. It is nil if the disk does.
func (q *Queue) Full() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.why
}

// Close writes what is late and gives the file free.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return errors.Join(q.flush(), q.file.close())
}
