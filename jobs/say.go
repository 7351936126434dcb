package jobs

import (
	"fmt"
	"sync"

	"github.com/berth-ml/berth/jobs/queue"
)

// sayings are lines that Told has not heard yet.
type sayings struct {
	mu      sync.Mutex
	list    []string
	telling bool // a goroutine tells them
}

// say notes what has happened to a job. It may be called with the daemon's lock; tell follows without it.
func (d *Daemon) say(j queue.Job, what string) {
	name := j.Name
	if t := j.Trial; t != nil {
		name += fmt.Sprintf(", trial %d of sweep %d", t.Number, t.Sweep)
	}
	d.said.mu.Lock()
	defer d.said.mu.Unlock()
	d.said.list = append(d.said.list, fmt.Sprintf("job %d (%s) %s", j.ID, name, what))
}

// tell lets Told hear what was said, in that order: one goroutine at a time tells, also what others say meanwhile.
func (d *Daemon) tell() {
	s := &d.said
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling {
		return
	}
	s.telling = true
	for len(s.list) > 0 {
		line := s.list[0]
		s.list = s.list[1:]
		s.mu.Unlock()
		d.options.Told(line)
		s.mu.Lock()
	}
	s.telling = false
}
