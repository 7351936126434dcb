package overview

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/jobs/queue"
)

// The conditions that runs of queued jobs have beside those of rundir.
const (
	waits  rundir.Condition = "waiting" // it has begun, and goes on once its job has devices again
	queued rundir.Condition = "queued"  // it has not begun
	paused rundir.Condition = "paused"  // it goes on once somebody resumes its job, whether it has begun or not
)

// Resting is a job that is not over and does not train now. A nil one is none.
type Resting struct {
	Job int
	Dir string // its run folder
	// Paused says that somebody has to resume it; otherwise it waits, also as one that was suspended.
	Paused bool
}

// RestingOf is a job in a state as a job that rests; nil: it does not.
func RestingOf(job int, dir string, state queue.State) *Resting {
	if state != queue.Waiting && state != queue.Paused {
		return nil
	}
	return &Resting{job, dir, state == queue.Paused}
}

// condition is what became of the run, by its folder and its job. While a job is paused, a process beside the queue may train its
// run; one that was suspended still has its run's checkpoints.
func (s summarized) condition() rundir.Condition {
	c, r := s.Condition, s.rests
	switch {
	case r == nil, c == rundir.Unreadable, c == rundir.Running && r.Paused:
		return c
	case r.Paused:
		return paused
	case c == queued:
		return c
	}
	return waits
}

// markResting notes the jobs of runs that rest. It returns the jobs with other folders.
func markResting(list []summarized, jobs []Resting) (others []Resting) {
	of, met := map[string]*Resting{}, map[*Resting]bool{}
	for i := range jobs {
		of[osfile.Real(jobs[i].Dir)] = &jobs[i]
	}
	for i := range list {
		s := &list[i]
		if s.rests = of[osfile.Real(s.dir)]; s.rests != nil {
			met[s.rests] = true
		}
	}
	for i := range jobs {
		if !met[&jobs[i]] {
			others = append(others, jobs[i])
		}
	}
	return others
}

// told are the jobs that rest. Where they are not known, it says so.
func told(c *cobra.Command, resting func(context.Context) ([]Resting, error)) []Resting {
	list, err := resting(c.Context())
	if err != nil {
		cli.Tell(c, c.ErrOrStderr(), fmt.Sprintf("states are those of run folders alone, without the queue of jobs: %v", err))
	}
	return list
}

// queuedIn are the runs of those jobs whose folders are in the folder dir, and in which nothing has begun.
func queuedIn(dir string, jobs []Resting) (list []summarized) {
	for i := range jobs {
		j := &jobs[i]
		st, err := os.Stat(j.Dir)
		if err != nil || osfile.Real(filepath.Dir(j.Dir)) != osfile.Real(dir) {
			continue
		}
		list = append(list, summarized{filepath.Join(dir, filepath.Base(j.Dir)), &rundir.Summary{Condition: queued, Changed: st.ModTime()}, j})
	}
	return list
}
