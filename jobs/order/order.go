package order

import (
	"cmp"
	"math"
	"time"
)

// Patience is how many times its own length a job waits before it goes ahead of
// the others.
const Patience = 20

// Job is what the order knows of a job that wants to run: one that is paused, or waits
// for its inputs, is not among the jobs.
type Job struct {
	Number   int
	Priority int

	// Length is the time that the whole job takes on its devices without other jobs;
	// Left is what is left of it.
	Length, Left time.Duration

	// Age is the time since the job was submitted, without that in which it was
	// paused or waited for inputs.
	Age time.Duration

	// Needs says how many devices of each kind the job takes. A kind appears once.
	Needs []Need

	// On names the devices on which the job runs, or on which its tensors were left.
	On []string

	// Running says that the job has the devices of On now.
	Running bool

	// Host is the most host memory that the job takes beside its data, in bytes, and Data what that takes. Jobs with the same
	// DataID have it in common. Open says that it takes them now: it runs, or was suspended.
	Host, Data int64
	DataID     string
	Open       bool

	// Safe is the ratio of age to length that the last [Place] of the job gave it,
	// and 0 if it gave none.
	Safe float64
}

// Need is a number of devices of a kind.
type Need struct {
	Kind  string
	Count int
}

// Device is a device that is there to be used.
type Device struct {
	Name string
	Kind string
}

// Place is what a job gets.
type Place struct {
	// Devices names the devices of the job, in the order of its needs. It is empty if the
	// job waits.
	Devices []string

	// Behind has the numbers of the jobs that got devices of a kind that this job
	// lacks, in the order of the line.
	Behind []int

	// Lacks is the need for which there are not enough devices, whatever the other jobs
	// do. Its count is 0 if there is no such need.
	Lacks Need

	// Safe is the ratio that no other job's counts against while this one runs; see
	// the package's documentation. The caller keeps it in [Job.Safe].
	Safe float64
}

// Arrange says which jobs run now, and on which devices: the place of jobs[i] is
// places[i]. A running job that goes on stays on its devices. The same arguments give
// the same places, in whatever order the jobs come. For n jobs and d devices it takes time in
// proportion to n + d log n, as long as few jobs need several devices.
func Arrange(jobs []Job, devices []Device) (places []Place) {
	places = make([]Place, len(jobs))
	s := newShares(devices)
	chosen, waiting := choose(jobs, s, places)
	for _, i := range waiting {
		places[i] = s.wait(&jobs[i])
	}
	seat(jobs, devices, chosen, places)
	return places
}

// choose goes through the line while there are devices left. It returns the jobs that get
// some, and those that it did not come to. Those that it passed over have their place.
func choose(jobs []Job, s *shares, places []Place) (chosen, waiting []int) {
	l := newLine(jobs)
	for s.left > 0 && len(l.heap) > 0 {
		i := l.pop()
		j := &jobs[i]
		if !s.take(j) {
			places[i] = s.wait(j)
			if overdue(j) && places[i].Lacks.Count == 0 {
				s.await(j)
			}
			continue
		}
		chosen = append(chosen, i)
		if overdue(j) && !s.awaited(j) {
			places[i].Safe = ratio(j)
		}
	}
	return chosen, l.heap
}

// ratio is how many times its length ago the job was submitted.
func ratio(j *Job) float64 {
	if j.Safe > 0 {
		return j.Safe
	}
	return float64(j.Age) / float64(max(j.Length, 1))
}

// overdue says whether the job goes first for its age. It counts in whole numbers, as
// [forecast.next] does, so that both mean the same instant.
func overdue(j *Job) bool { return j.Safe > 0 || j.Age > patience(j) }

// patience is the age up to which the job waits like others.
func patience(j *Job) time.Duration { return Patience * min(j.Length, math.MaxInt64/Patience) }

// Compare orders the line: it is negative where a stands before b. It is a total order, since numbers differ.
func Compare(a, b *Job) int {
	if c := compareOverdue(a, b); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(weight(a), weight(b)),
		cmp.Compare(a.Number, b.Number),
	)
}

func compareOverdue(a, b *Job) int {
	x, y := overdue(a), overdue(b)
	switch {
	case x != y:
		return first(x)
	case !x:
		return 0
	}
	if x, y = safe(a), safe(b); x != y {
		return first(x)
	}
	return cmp.Or(cmp.Compare(ratio(b), ratio(a)), cmp.Compare(a.Number, b.Number))
}

func first(x bool) int {
	if x {
		return -1
	}
	return 1
}

// safe says whether the job has begun as one that others do not displace.
func safe(j *Job) bool { return j.Running && j.Safe > 0 }

// weight is the time left as the line counts it. It is twice that, so that half of it stays whole.
func weight(j *Job) time.Duration {
	if j.Running {
		return j.Left
	}
	return 2 * j.Left
}
