package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/internal/build"
	"github.com/berth-ml/berth/internal/prompt"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// Local is a queue without a daemon: jobs can be submitted, looked at and changed, and none
// runs. Its methods are those of [Daemon].
type Local struct {
	desk
	path string
	plan func(context.Context, *configs.Config, *queue.Submission) error
}

// OpenLocal opens the queue in the file at path. queue.ErrHeld says that a daemon has it. The
// caller calls Close.
func OpenLocal(path string) (*Local, error) {
	q, err := openQueue(path)
	if err != nil {
		return nil, err
	}
	return &Local{desk{queue: q, program: build.Exact()}, path, planApart}, nil
}

// openQueue opens the queue in the file at path. Jobs that a daemon was training when it was killed stand where their newest
// checkpoints do.
func openQueue(path string) (*queue.Queue, error) {
	q, err := queue.Open(path)
	if err != nil {
		return nil, err
	}
	for _, j := range q.CutOff() {
		if m, err := rundir.Newest(j.Dir); err == nil {
			q.StandsAt(j.ID, m.Step)
		}
	}
	return q, nil
}

// Close gives the queue free.
func (l *Local) Close() error { return l.queue.Close() }

// Submit plans a config on devices of its own, and queues it. Others can have the queue while it plans:
// queue.ErrHeld says that one still has it.
func (l *Local) Submit(ctx context.Context, s Submission) (queue.Job, error) {
	return l.submit(ctx, s, func(ctx context.Context, c *configs.Config, q *queue.Submission) (err error) {
		if err := l.queue.Close(); err != nil {
			return err
		}
		planned := l.plan(ctx, c, q)
		again, err := openQueue(l.path)
		if err == nil {
			l.queue = again
		}
		return errors.Join(planned, err)
	})
}

// planApart finds out what a job takes, on devices of its own.
func planApart(ctx context.Context, c *configs.Config, q *queue.Submission) (err error) {
	if q.Needs, err = needs(c, nil); err != nil {
		return err
	}
	if q.Sweep != nil {
		q.Sweep.AtOnce = cmp.Or(c.Devices.Threads, prompt.Threads()) // as many as beside gives devices at most
	}
	return foresee(ctx, c, berth.OpenOptions{}, q)
}

// View is one job.
func (l *Local) View(id int) (View, error) {
	j, err := l.queue.Job(id)
	return resting(l.queue.Jobs(), j), err
}

// Views are all jobs, by number.
func (l *Local) Views() []View {
	list := l.queue.Jobs()
	views := make([]View, len(list))
	for i, j := range list {
		views[i] = resting(list, j)
	}
	return views
}

// WaitsForDaemon is why a job waits that nobody is there to train.
const WaitsForDaemon = "waits for a daemon: trainer up"

// ViewOf is a job that nobody runs: one that is over, or that has no daemon.
func ViewOf(j queue.Job) View {
	v := View{Job: j}
	switch {
	case j.State == queue.Failed:
		v.Where = j.Failure()
	case j.State == queue.Finished && j.As != 0:
		v.Where = asJob(&j)
	case j.State == queue.Waiting && j.Resting():
		v.Where = waitsForTrials(&j)
	case j.State == queue.Waiting:
		v.Where = WaitsForDaemon
	}
	return v
}

// resting is ViewOf for a job that may have others of a list as inputs.
func resting(list []queue.Job, j queue.Job) View {
	v := ViewOf(j)
	if v.Stuck = idOf(stuck(list, &j)); v.Stuck != 0 && j.State == queue.Waiting {
		v.Where = waitsForInputs(list, &j)
	}
	return v
}

// Want changes what is wanted of a job.
func (l *Local) Want(id int, w queue.Wish) (queue.Job, error) {
	list, err := l.queue.Want(id, w)
	if err != nil {
		return queue.Job{}, err
	}
	return list[0], nil
}

// SetPriority changes a job's place in the line.
func (l *Local) SetPriority(id, priority int) (queue.Job, error) {
	return l.queue.SetPriority(id, priority)
}

// OpenFor opens a daemon with the devices of one job's config, for [Daemon.RunOnly]. It has no use for those
// of o. The trials of a sweep may get devices with a part of the cores each. A pipeline has as many as one of its steps
// needs, with what the first config of them says of devices.
func OpenFor(id int, o Options) (*Daemon, error) {
	l, err := OpenLocal(o.Queue)
	if err != nil {
		return nil, err
	}
	devices, err := l.devicesFor(id)
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	o.Devices = devices
	o.Devices.Memory = configs.Memory{} // the job's plan keeps to it, also to a share of what it takes
	return Open(o)
}

// beside is how many trials of a sweep the one cpu device of its config gives way to devices for, each with a part of its
// cores: a model keeps several cores less busy than as many models do. A device has at least four trials, so that all
// have work nearly to the end.
func beside(x configs.Devices, s *configs.Sweep, j *queue.Job) int {
	of := func(d configs.Dimension) bool { return d.Key == "devices" || strings.HasPrefix(d.Key, "devices.") }
	if len(x.Each) > 0 || x.Memory != (configs.Memory{}) || !slices.Equal(j.Needs, []order.Need{{Kind: "cpu", Count: 1}}) || slices.ContainsFunc(s.Vary, of) {
		return 1
	}
	n := min(cmp.Or(x.Threads, prompt.Threads()), s.Total()/4, cmp.Or(s.AtOnce, math.MaxInt))
	for ; n > 1; n-- {
		if each, err := host.DefaultBudget(n); err == nil && j.Memory <= each {
			break
		}
	}
	return n
}

// devicesFor are the devices that a job has alone.
func (l *Local) devicesFor(id int) (devices configs.Devices, err error) {
	j, err := l.queue.Job(id)
	if err != nil {
		return devices, err
	}
	of := id
	if j.Pipeline {
		list := l.queue.Jobs()
		first := slices.IndexFunc(list, func(x queue.Job) bool { return x.Work == nil && x.StepOf != nil && x.StepOf.Pipeline == id })
		if first < 0 {
			return configs.Devices{Use: listed(j.Needs)}, nil
		}
		of = list[first].ID
	}
	text, err := l.Config(of)
	if err != nil {
		return devices, err
	}
	c, err := configs.Parse(fmt.Sprintf("config of job %d", of), text, configs.Overlay{})
	if err != nil {
		return devices, err
	}
	devices = c.Devices
	switch {
	case j.Pipeline:
		devices.Use, devices.Each = listed(j.Needs), nil
	case j.Sweep != nil:
		s, err := parseSweep(&j)
		if err != nil {
			return devices, err
		}
		if n := beside(devices, s, &j); n > 1 {
			devices.Use = fmt.Sprintf("cpu:%d", n)
		}
	}
	return devices, nil
}

// listed are needs as devices.use has them.
func listed(needs []order.Need) string {
	var list []string
	for _, n := range needs {
		list = append(list, fmt.Sprintf("%s:%d", n.Kind, n.Count))
	}
	return strings.Join(list, ",")
}

// RunOnly is [Daemon.Run] for one job: others wait, and it returns once that one is over.
func (d *Daemon) RunOnly(ctx context.Context, id int) (View, error) {
	d.mu.Lock()
	d.only = id
	d.mu.Unlock()
	err := d.Run(ctx)
	v, missing := d.View(id)
	return v, errors.Join(err, missing)
}
