package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/build"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// Options say what a daemon owns.
type Options struct {
	Queue   string          // the file of the queue
	Devices configs.Devices // those to open; a zero field means the key's default

	// Program names all of the source that this program was built from. Jobs that a program of the same name has trained are not
	// trained again. Empty: the name is taken from the build, and a build of changed source has none.
	Program string

	// Observe makes the observer of a job's training, which writes to the job's log. Nil: one
	// line for each boundary and note.
	Observe func(log io.Writer, run *berth.Run) *berth.Observer

	// Told hears of what happens to jobs, a line each, and Ended of a job that is over; nil for
	// nobody. Lines come one at a time, in the order in which they happened. Calls come from many goroutines, and may ask
	// the daemon. Those of Ended may take long: Close waits for them.
	Told  func(line string)
	Ended func(queue.Job)
}

// Daemon owns devices and trains the jobs of a queue on them. Its methods are safe for
// concurrent use.
type Daemon struct {
	desk
	options Options
	owned   *berth.Devices
	host    int64 // bytes of host memory for all jobs together; 0: it is not known

	woken chan struct{} // holds one wish to decide anew
	tasks sync.WaitGroup
	said  sayings        // for Told
	told  sync.WaitGroup // calls of Ended

	sweeps map[int]*sweeper // by job; of the goroutine of Run alone
	names  sync.Map         // jobs by the name of their open run on the devices

	mu    sync.Mutex
	open  map[int]*task     // by job
	kept  map[int]string    // why sweeps have checkpoints that are to be deleted
	begun map[int]bool      // jobs that this daemon has begun and that are not over
	later map[int]time.Time // when jobs may begin again that have failed
	ends  map[int]time.Time // when jobs are foretold to end, since the last decision; nil: not found yet
	drain bool              // no others begin than those of begun
	only  int               // the one job that may run; 0: all

	tracing sync.Mutex // of the one call of TraceStep

	planned    *planned // the job that is planned, since its inputs have finished; nil: none
	submitting int      // submissions that are planned
}

// Open opens the queue and the devices. Nothing trains until Run. The caller calls Close.
func Open(o Options) (*Daemon, error) {
	q, err := openQueue(o.Queue)
	if err != nil {
		return nil, err
	}
	devices, err := berth.OpenDevices(o.Devices, berth.DevicesOptions{})
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	if o.Told == nil {
		o.Told = func(string) {}
	}
	if o.Ended == nil {
		o.Ended = func(queue.Job) {}
	}
	return &Daemon{
		desk: desk{queue: q, program: cmp.Or(o.Program, build.Exact())}, options: o, owned: devices, host: devices.HostMemory(),
		woken: make(chan struct{}, 1), open: map[int]*task{}, begun: map[int]bool{}, later: map[int]time.Time{},
		sweeps: map[int]*sweeper{},
		kept:   map[int]string{},
	}, nil
}

// Close gives the devices and the queue free. Run must have returned.
func (d *Daemon) Close() error {
	d.told.Wait()
	return errors.Join(d.owned.Close(), d.queue.Close())
}

// tick is how often the line is looked at when nothing happens: the time that is left
// changes while jobs run.
const tick = time.Second

// retryAfter is how long a job waits after a failure that may not come again: what is wrong around it takes
// time to pass.
var retryAfter = 10 * time.Second

// Run trains jobs until ctx ends. Then it lets the step of each running one end, saves all,
// and returns. Those that have not ended go on with the next daemon.
func (d *Daemon) Run(ctx context.Context) error {
	for _, j := range d.queue.Blamed() {
		if d.leadsHere(&j) {
			d.queue.Told(j.ID)
			d.say(j, "failed: "+j.Failure())
			d.over(j)
		}
	}
	d.tell()
	timer := time.NewTicker(tick)
	defer timer.Stop()
	for ctx.Err() == nil {
		d.decide()
		if d.done() {
			d.decide() // so that sweeps and pipelines end with the last job that they lead
			break
		}
		select {
		case <-ctx.Done():
		case <-d.woken:
		case <-timer.C:
			_ = d.queue.Flush()
		}
	}
	d.stopAll(fmt.Errorf("the daemon ends: %w", context.Cause(ctx)))
	d.tasks.Wait()
	return d.queue.Flush()
}

// Devices names the devices that are not lost.
func (d *Daemon) Devices() string {
	var names []string
	for _, x := range d.usable() {
		names = append(names, x.Name)
	}
	return strings.Join(names, ", ")
}

// Finish lets jobs end that have begun, also those that are closed for a while, and begins no others. Run returns after
// the last one. It does not wait for a job that is paused, or whose devices are lost.
func (d *Daemon) Finish() {
	d.mu.Lock()
	d.drain = true
	d.mu.Unlock()
	d.wake()
}

// done says whether all that Run was to do is done.
func (d *Daemon) done() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(d.open) > 0:
		return false
	case d.drain:
		usable := d.usable()
		return !slices.ContainsFunc(d.queue.Jobs(), func(j queue.Job) bool {
			return d.begun[j.ID] && wants(&j) && order.Fits(j.Needs, usable)
		})
	case d.only == 0:
		return false
	}
	j, err := d.queue.Job(d.only)
	return err != nil || j.State.Over() || j.State == queue.Paused || !order.Fits(j.Needs, d.usable()) || slices.ContainsFunc(d.queue.Jobs(), d.waitsForOthers)
}

// waitsForOthers says whether a job is one that RunOnly runs, and waits for some that it leaves alone.
func (d *Daemon) waitsForOthers(j queue.Job) bool {
	return d.chosen(&j) && !j.State.Over() && j.Waits() && slices.ContainsFunc(j.Inputs, func(in queue.Input) bool {
		of, err := d.queue.Job(in.Job)
		return err != nil || of.State != queue.Finished && !d.chosen(&of)
	})
}

// wake asks Run to decide anew.
func (d *Daemon) wake() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// over tells of jobs that are over, one after the other.
func (d *Daemon) over(list ...queue.Job) {
	if len(list) == 0 {
		return
	}
	d.told.Go(func() {
		for _, j := range list {
			d.options.Ended(j)
		}
	})
}

// stopAll ends all open tasks, saved.
func (d *Daemon) stopAll(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.open {
		t.stop(cause)
	}
	if d.planned != nil {
		d.planned.cancel(cause)
	}
}
