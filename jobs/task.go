package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/jobs/queue"
)

// task is a job that is open: a goroutine that trains it. The fields below the line are
// guarded by the daemon's lock.
type task struct {
	daemon  *Daemon
	job     queue.Job
	devices []string
	cancel  context.CancelCauseFunc
	halted  context.Context // ends when the task is to end

	// ---
	opened *berth.Run // nil before it is open, and once it is closed
	aside  *aside     // nil: it has its devices, and is to keep them
	ending bool       // it is to end
	safe   float64
	pace   pace
	loss   *float64
}

// aside is one time that a task is to stand aside, until it goes on.
type aside struct {
	still bool // it does
}

func newTask(d *Daemon, j queue.Job, devices []string) *task {
	t := &task{daemon: d, job: j, devices: devices}
	t.halted, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// runs says whether the task has its devices and is to keep them; stands, whether it is suspended.
// The caller of these and of the following methods holds the daemon's lock.
func (t *task) runs() bool   { return t.aside == nil }
func (t *task) stands() bool { return t.aside != nil && t.aside.still }

// stop lets the task end after its step, saved.
func (t *task) stop(cause error) {
	t.ending = true
	t.cancel(cause)
}

// suspend asks the task to stand aside: between two steps, or two batches of an evaluation.
func (t *task) suspend() {
	if t.runs() {
		t.aside = &aside{}
		t.stand()
	}
}

// stand waits for the run to stand still, if it is open, in a goroutine of its own.
func (t *task) stand() {
	run, a, d := t.opened, t.aside, t.daemon
	if run == nil {
		return
	}
	d.tasks.Add(1)
	go func() {
		defer d.tasks.Done()
		t.stood(run, a, run.Suspend(t.halted))
	}()
}

// stood notes that the run stands still, if that is still what is wanted. Otherwise it may have been let go on
// before it was suspended, so it is let go on again. The queue has it before the lock is free, so that a proceed
// that comes next is written after it.
func (t *task) stood(run *berth.Run, a *aside, err error) {
	t.note(func() {
		if t.opened != run || t.runs() {
			_ = run.Continue() // it fails for a closed run alone
			return
		}
		if t.aside != a || err != nil {
			return
		}
		a.still = true
		t.pace.stand()
		length, left := t.pace.times()
		t.daemon.queue.Stood(t.job.ID, true, length, left)
		t.daemon.say(t.job, "stands aside")
	})
	t.daemon.tell()
	t.daemon.wake()
}

// proceed lets the task go on: its devices are its own again.
func (t *task) proceed() {
	if t.runs() {
		return
	}
	stood := t.stands()
	t.aside = nil
	if t.opened != nil {
		_ = t.opened.Continue() // it fails for a closed run alone
	}
	if stood {
		t.pace.start()
		length, left := t.pace.times()
		t.daemon.queue.Stood(t.job.ID, false, length, left)
		t.daemon.say(t.job, "goes on on "+strings.Join(t.devices, ", "))
	}
}

// open keeps the run, for suspend and proceed; close forgets it before it is closed.
func (t *task) open(run *berth.Run) {
	t.daemon.names.Store(run.Tenant(), t.job.ID)
	t.note(func() {
		t.opened = run
		if !t.runs() {
			t.stand()
		}
	})
}

func (t *task) close() {
	t.note(func() {
		if t.opened != nil {
			t.daemon.names.Delete(t.opened.Tenant())
			_ = t.opened.Continue()
		}
		t.opened = nil
	})
}

// run opens the job's run, trains, and notes how it ended.
func (t *task) run() {
	d := t.daemon
	r := t.train()
	var j queue.Job
	t.note(func() { // at once, so that nobody sees it half ended
		r.Length, r.Left = t.pace.times()
		if r.As == 0 { // otherwise they are those of the other job
			r.Step, r.Steps, r.Loss = t.pace.at, t.pace.total, t.loss
		}
		j = d.queue.End(t.job.ID, r)
		d.say(j, ended(j, r))
		delete(d.open, t.job.ID)
		if j.State.Over() {
			delete(d.begun, t.job.ID)
		} else if r.Err != nil && j.State == queue.Waiting {
			d.later[t.job.ID] = time.Now().Add(retryAfter)
		}
	})
	d.tell()
	if j.State.Over() {
		d.over(j)
	}
	d.wake()
}

// ended says what has become of a job whose attempt is over.
func ended(j queue.Job, r queue.Result) string {
	switch {
	case r.Err == nil && j.State == queue.Waiting && j.Resting():
		return fmt.Sprintf("rests at step %d", j.Trial.Step)
	case r.Err == nil && r.As != 0:
		return fmt.Sprintf("%s, as job %d in %s", j.State, r.As, r.Dir)
	case r.Err == nil:
		return string(j.State)
	case j.State == queue.Failed:
		return fmt.Sprintf("failed: %v", r.Err)
	}
	return fmt.Sprintf("is %s after a failure: %v", j.State, r.Err)
}

// train trains until the run is complete, or until it is to end.
func (t *task) train() (r queue.Result) {
	text, err := t.daemon.queue.Config(t.job.ID)
	if err != nil {
		return t.failed(err)
	}
	log, err := openLog(&t.job)
	if err != nil {
		return t.failed(err)
	}
	defer func() {
		log.Close()
		if r.As != 0 { // the other job's run folder stands for this one
			_ = os.Remove(filepath.Join(t.job.Dir, LogName))
			_ = os.Remove(t.job.Dir)
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(log, "panic: %v\n%s", p, debug.Stack())
			r = queue.Result{Err: fmt.Errorf("panic: %v: its log says where", p), Code: 2}
		}
	}()
	r, err = t.attempt(text, log)
	err = keyed(err, &t.job, text)
	if err == nil && r.Complete && r.As == 0 {
		r.Saved = newest(t.job.Dir)
	}
	switch {
	case err == nil && (r.Complete || r.Reached != nil): // whatever is wanted since
		return r
	case t.halted.Err() != nil && (err == nil || t.stopped(err)):
		return queue.Result{}
	case err != nil:
		fmt.Fprintf(log, "failed: %v\n", err)
		return t.failed(err)
	}
	return queue.Result{}
}

// stopped says whether an error is that the task is to end.
func (t *task) stopped(err error) bool {
	return errors.Is(err, context.Cause(t.halted)) || errors.Is(err, t.halted.Err()) || errors.Is(err, berth.ErrStopped)
}

// failed is a failure, with whether another attempt may succeed: the same steps give the same loss, and
// a mistake in the config stays one.
func (t *task) failed(err error) queue.Result {
	r := queue.Result{Err: err, Code: 1, Again: true}
	if berth.IsUsage(err) {
		r.Code, r.Again = 2, false
	}
	for _, final := range []error{berth.ErrNonFinite, berth.ErrChanged, berth.ErrHasCheckpoint, berth.ErrFolder} {
		r.Again = r.Again && !errors.Is(err, final)
	}
	for _, full := range osfile.NoRoom { // of these, a limit on files does not go away
		r.Outside = r.Outside || errors.Is(err, full) && full != syscall.EFBIG
	}
	r.Outside = r.Outside || t.lost(err)
	return r
}

// lost says whether a failure is the loss of a device, which no job gets any more.
func (t *task) lost(err error) bool {
	var loss *berth.DeviceError
	return errors.As(err, &loss) && !slices.Contains(t.daemon.owned.Usable(), loss.Device)
}

// attempt opens the run and trains it: to its end, or a trial of a sweep to its rung. The result says
// whether it got there.
func (t *task) attempt(text []byte, log *logFile) (r queue.Result, err error) {
	if t.job.Work != nil {
		return t.work(log)
	}
	trial, overlay, err := t.daemon.trial(&t.job)
	if err != nil {
		return r, err
	}
	c, err := configs.Parse(configName(&t.job), text, overlay)
	if err != nil {
		return r, err
	}
	status, err := rundir.StatusOf(t.job.Dir)
	resume := err != nil || status.State != rundir.None
	if resume && len(t.job.Attempts) == 1 {
		return r, fmt.Errorf("%w: %s: another run has begun there since the job was submitted: submit it again, or go on with that run by trainer resume", berth.ErrHasCheckpoint, t.job.Dir)
	}
	o := berth.OpenOptions{Devices: t.daemon.owned, Use: deviceIDs(t.devices)}
	if resume {
		o.Resume = t.job.Dir
	}
	if err := t.daemon.verifyInputs(&t.job); err != nil {
		return r, err
	}
	first := filepath.Join(t.job.Dir, initName)
	if !c.Adapts() { // an adapter is used with it from then on
		defer func() { _ = os.Remove(first) }() // it is mostly not there
	}
	init := ""
	if !resume {
		if init, err = t.firstWeights(first); err != nil {
			return r, err
		}
	}
	run, err := berth.Open(t.halted, c, o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	c.Schedule.Warmup = run.Config.Schedule.Warmup
	if as, err := t.done(c, run, trial, init, resume); err != nil {
		return r, err
	} else if as != nil {
		return *as, nil
	}
	t.open(run)
	defer t.close()
	training, err := run.Start(t.halted, berth.TrainOptions{Dir: t.job.Dir, Resume: resume, Init: init, MaxSteps: trial.step(run), Observer: t.observer(run, log)})
	if err != nil {
		return r, t.ofInput(init, err)
	}
	defer func() { err = errors.Join(err, training.Close()) }()
	t.shares(training)
	t.note(func() { t.pace.begin(run.TotalSteps(), training.Steps()); t.pace.start() })
	broken := false // a step did not come to its end: it is not taken, or the evaluation after it is missing
	for !broken && training.More() && t.halted.Err() == nil {
		err := training.Step(t.halted)
		broken = err != nil && t.halted.Err() != nil && errors.Is(err, context.Cause(t.halted))
		if err != nil && !broken {
			return r, err
		}
		t.note(func() { t.pace.step(training.Steps()) })
	}
	there := !broken && !training.More()
	report, err := training.Finish(t.halted) // it saves, whoever has the devices, and waits for none once the task is to end
	if err == nil && there {
		r.Complete = trial == nil || report.Finished
		r.Reached = trial.reached(run, report)
	}
	return r, err
}

// shares says which other jobs have the frozen weights that the training has an adapter beside.
func (t *task) shares(training *berth.Training) {
	with, bytes := training.Shares()
	if len(with) == 0 {
		return
	}
	text := fmt.Sprintf("has its frozen weights, %s, together with %s", units.Bytes(bytes), strings.Join(with, ", "))
	t.note(func() {
		t.daemon.queue.Note(t.job.ID, text)
		t.daemon.say(t.job, text)
	})
	t.daemon.tell()
}

// done finds out what the job's weights follow from, and what another job has that has trained them before; nil: none
// has, or this one has begun.
func (t *task) done(c *configs.Config, run *berth.Run, trial *trial, init string, resume bool) (*queue.Result, error) {
	numerics, err := numericsOf(run)
	if err != nil {
		return nil, err
	}
	of, weights := &t.job, t.job.Weights
	if trial != nil {
		of = &trial.of
	}
	if init != "" {
		if weights, err = initial.Hash(t.halted, init, run.Plan().Graph.Vars); err != nil {
			return nil, t.ofInput(init, err)
		}
	}
	recipe, err := t.daemon.recipe(of, c, run.Data.Info.Fingerprint, numerics, weights)
	if err != nil {
		return nil, err
	}
	t.daemon.queue.Follow(t.job.ID, recipe, weights, !resume)
	if resume || t.job.Again {
		return nil, nil
	}
	same := byRecipe(t.daemon.queue.Jobs())[recipe]
	if trial == nil {
		return finishedAs(t.halted, same), nil
	}
	return trial.as(t.halted, same, run), nil
}

// ofInput says of an error of the first weights that they are those of an input.
func (t *task) ofInput(init string, err error) error {
	if from, e := initial.ParseSource(init); e != nil || from.File != filepath.Join(t.job.Dir, initName) {
		return err
	}
	return fmt.Errorf("the weights of its input: %w", err)
}

// note changes what the lock guards.
func (t *task) note(change func()) {
	t.daemon.mu.Lock()
	defer t.daemon.mu.Unlock()
	change()
}

func deviceIDs(names []string) (ids []device.ID) {
	for _, n := range names {
		ids = append(ids, device.ID(n))
	}
	return ids
}

// observer tells the daemon of the training's progress, and the log of the rest.
func (t *task) observer(run *berth.Run, log *logFile) *berth.Observer {
	var o *berth.Observer
	if t.daemon.options.Observe != nil {
		o = t.daemon.options.Observe(log, run)
	} else {
		o = lines(log)
	}
	saved, boundary := o.Saved, o.Boundary
	o.Saved = func(s berth.Saved) {
		if t.daemon.queue.Saved(t.job.ID) {
			t.daemon.wake()
		}
		if saved != nil {
			saved(s)
		}
	}
	o.Boundary = func(b berth.Boundary) {
		if x := b.TrainLoss; x != nil && !math.IsNaN(*x) && !math.IsInf(*x, 0) { // JSON has no others
			t.note(func() { t.loss = x })
		}
		if boundary != nil {
			boundary(b)
		}
	}
	return o
}

// lines writes a line for each boundary and note.
func lines(log *logFile) *berth.Observer {
	say := func(text string) { fmt.Fprintf(log, "%s %s\n", time.Now().Format(time.DateTime), text) }
	return &berth.Observer{
		Note: say,
		Boundary: func(b berth.Boundary) {
			say(fmt.Sprintf("step %d, training loss %s", b.Step, number(b.TrainLoss)))
		},
	}
}

func number(x *float64) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf("%.4g", *x)
}
