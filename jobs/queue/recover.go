package queue

import (
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Open opens the queue in the file at path, and makes one where there is none. ErrHeld says
// that another process has it. Jobs that ran when the process before this one ended wait again.
func Open(path string) (*Queue, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	q := &Queue{file: f, keys: map[string]int{}, late: map[int]bool{}, fresh: map[int]bool{}}
	if q.jobs, err = f.jobs(); err != nil {
		f.close()
		return nil, err
	}
	now := time.Now()
	for id, j := range q.jobs {
		q.fresh[id] = true
		for _, key := range j.keys() {
			q.keys[key] = id
		}
		if j.Open() {
			q.cut = append(q.cut, id)
		}
		if j.lasting() != nil {
			j.interrupted(now)
			q.late[id] = true
		}
	}
	_ = q.Flush() // on a full disk they stay late
	return q, nil
}

// Blamed are the jobs that have failed since a process ended while they ran alone, and of which Told has not said that
// somebody knows.
func (q *Queue) Blamed() (list []Job) {
	for _, j := range q.Jobs() {
		if j.Untold {
			list = append(list, j)
		}
	}
	return list
}

// Told notes that somebody knows of a job that Blamed had.
func (q *Queue) Told(id int) {
	q.report(id, func(j *Job, _ time.Time) { j.Untold = false })
}

// Beside notes that something runs beside the jobs that run alone, before it does: if the process ends now, nobody knows
// whose fault it was.
func (q *Queue) Beside() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var changed []*Job
	for _, id := range slices.Sorted(maps.Keys(q.jobs)) {
		if a := q.jobs[id].lasting(); a != nil && a.Alone {
			next := q.jobs[id].clone()
			next.lasting().Alone = false
			changed = append(changed, next)
		}
	}
	_, err := q.replace(changed)
	return err
}

// interrupted ends the attempt that lasted when the process ended.
func (j *Job) interrupted(now time.Time) {
	if a := j.open(); a == nil {
		j.interruptedPlan(now)
	} else if a.Ended = now; j.State == Waiting { // suspended, so it cannot have been its fault
		j.enter(idle(j.Wish), now)
	} else if j.accused(a, "the process ended while it ran: it runs alone until it has saved", now) {
		j.blame(a, "the process ended for the second time while this job ran, now as the only one, before it had saved", now)
	}
}

// interruptedPlan is interrupted for a job that was planned.
func (j *Job) interruptedPlan(now time.Time) {
	a := j.Planning
	a.Ended, j.Planning = now, nil
	if j.accused(a, "the process ended while it was planned: it is planned alone", now) {
		j.Attempts = newest(append(j.Attempts, *a), mostAttempts)
		j.blame(&j.Attempts[len(j.Attempts)-1], "the process ended for the second time while this job was planned, now as the only one", now)
	}
}

// accused says whether it was the fault of the job that the process ended in an attempt. Otherwise the job waits, as a
// suspect if it may have been.
func (j *Job) accused(a *Attempt, suspicion string, now time.Time) bool {
	switch {
	case j.Wish != Run: // a full disk may not have taken that it had stopped
		j.note(now, "the process ended while it was to stop")
	case a.Machine != "" && a.Machine != machine():
		j.note(now, "the machine was started anew")
	case a.Alone:
		return true
	default:
		j.Suspect = true
		j.note(now, "%s", suspicion)
	}
	j.enter(idle(j.Wish), now)
	return false
}

// blame fails the job for an attempt.
func (j *Job) blame(a *Attempt, why string, now time.Time) {
	a.Error, a.Code, j.Suspect = why, 1, false
	j.note(now, "attempt failed: %s", why)
	j.enter(Failed, now)
	j.Untold = true
}

// machine tells one start of the machine from the next; it is empty where that is not known.
var machine = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
})
