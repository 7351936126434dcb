package queue

import (
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
	q := &Queue{file: f, keys: map[string]int{}, late: map[int]bool{}}
	if q.jobs, err = f.jobs(); err != nil {
		f.close()
		return nil, err
	}
	now := time.Now()
	for id, j := range q.jobs {
		for _, key := range j.keys() {
			q.keys[key] = id
		}
		if j.Open() {
			j.interrupted(now)
			q.late[id] = true
			if j.State == Failed {
				q.blamed = append(q.blamed, id)
			}
		}
	}
	_ = q.Flush() // on a full disk they stay late
	return q, nil
}

// Blamed are the jobs that have failed since the process before this one ended while they ran alone. The
// second call has none.
func (q *Queue) Blamed() (list []Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range slices.Sorted(slices.Values(q.blamed)) {
		if j := q.jobs[id]; j != nil && j.State == Failed {
			list = append(list, *j)
		}
	}
	q.blamed = nil
	return list
}

// interrupted ends the attempt that lasted when the process ended.
func (j *Job) interrupted(now time.Time) {
	a := j.open()
	a.Ended = now
	if j.State == Waiting { // suspended, so it cannot have been its fault
		j.enter(idle(j.Wish), now)
		return
	}
	if j.Wish != Run { // a full disk may not have taken that it had stopped
		j.note(now, "the process ended while it was to stop")
		j.enter(idle(j.Wish), now)
		return
	}
	if a.Machine != "" && a.Machine != machine() {
		j.note(now, "the machine was started anew")
		j.enter(idle(j.Wish), now)
		return
	}
	if a.Alone {
		a.Error = "the process ended for the second time while this job ran, now as the only one, before it had saved"
		j.Suspect = false
		j.note(now, "attempt failed: %s", a.Error)
		j.enter(Failed, now)
		return
	}
	j.Suspect = true
	j.note(now, "the process ended while it ran: it runs alone until it has saved")
	j.enter(idle(j.Wish), now)
}

// machine tells one start of the machine from the next; it is empty where that is not known.
var machine = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
})
