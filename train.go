package berth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// TrainOptions says how to train, beyond the config.
type TrainOptions struct {
	// Dir is the run folder: config.yaml, metrics.jsonl, checkpoints.db and
	// report.json. It is made where it is missing.
	Dir string
	// Resume continues from the newest whole checkpoint in Dir; Fresh begins
	// anew and forgets what Dir holds. With neither, a Dir that holds a
	// checkpoint is an error.
	Resume, Fresh bool
	// Init names a safetensors file, FILE[:PREFIX], that gives the parameters'
	// first values by name, after the prefix.
	Init string
	// MaxSteps ends the run, saved, after that many steps since its beginning;
	// 0 means the config's epochs. The learning rate's schedule ignores it.
	MaxSteps int
	// MaxTime ends the call, saved, before it has taken that long, as far as
	// the time of a step and of a save can be foreseen; 0 means no limit. The
	// error is ErrStopped where the run was not complete by then.
	MaxTime time.Duration
	// Began is when MaxTime begins to count; zero: with the call.
	Began time.Time
	// SaveNow asks for a checkpoint after the step that is under way, for each
	// value received; nil for never.
	SaveNow <-chan struct{}
	// AllowChanged resumes although the config or the data is not what the
	// checkpoint was made with, and says what changed. Weights must still fit.
	AllowChanged bool
	// AssertResident fails the run if between epoch boundaries anything but
	// the batch is copied in, or anything comes out that was not asked for.
	AssertResident bool
	// Dump is a folder for what the run was made of: graph, plan, schedule,
	// ledger and trace. Empty means none.
	Dump string
	// Report is a further file that the report is written to.
	Report   string
	Observer *Observer
}

// check refuses options that exclude each other.
func (o TrainOptions) check() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("%w: no run folder is given", ErrOptions)
	case o.Resume && o.Fresh:
		return fmt.Errorf("%w: resume and fresh exclude each other", ErrOptions)
	case o.Resume && o.Init != "":
		return fmt.Errorf("%w: a resumed run takes its weights from the checkpoint, not from %s", ErrOptions, o.Init)
	case o.MaxSteps < 0 || o.MaxTime < 0:
		return fmt.Errorf("%w: at most %d steps, at most %v: 0 is for no limit, and less than that means nothing", ErrOptions, o.MaxSteps, o.MaxTime)
	}
	return nil
}

// trainer is one call of Train.
type trainer struct {
	*Run
	opt     TrainOptions
	rt      *executor.Runtime
	prog    *executor.Program
	eval    *evaluator // nil without a validation part
	feed    *feeder
	db      *checkpoint.DB
	claim   *checkpoint.Claim // of a run that begins anew, until it has replaced the file
	metrics *metricsFile
	dump    *dumper
	given   *initialiser // of a run that begins
	at      progress
	losses  []float64 // of every logged step
	clock   stepClock
	saves   saver
	between time.Duration   // the longest that evaluating and saving took
	first   int             // steps taken before this call
	leisure context.Context // ends when someone wants the run to end soon
	queued  []queued        // steps whose slots are not yet returned
}

// queued is a step under way.
type queued struct {
	ticket executor.Ticket
	batch  datasets.Batch
}

// Train trains until the config's epochs, MaxSteps or early stopping, and
// returns the report. When ctx is cancelled it finishes the step, saves and
// returns ErrStopped along with a report; before the first step, without one.
func (r *Run) Train(ctx context.Context, o TrainOptions) (*Report, error) {
	if o.Began.IsZero() {
		o.Began = time.Now()
	}
	t := &trainer{Run: r, opt: o}
	rep, err := t.run(ctx)
	return rep, errors.Join(err, t.close())
}

func (t *trainer) run(ctx context.Context) (*Report, error) {
	if err := t.openInTime(ctx); err != nil {
		return nil, err
	}
	t.opt.Observer.started(Start{
		Epochs: t.Config.Train.Epochs, StepsPerEpoch: t.sizes.steps,
		Step: t.at.Step, Parameters: t.parameters(),
	})
	for _, text := range []string{t.sizes.oneStep(), t.largest()} {
		if text != "" {
			t.opt.Observer.note(text)
		}
	}
	t.first = t.at.Step
	stopped, err := t.loop(ctx)
	saving := t.endSaves()
	if err != nil {
		return nil, errors.Join(t.explain(err), saving)
	}
	if saving != nil {
		return nil, saving
	}
	rep, err := t.finish()
	if err == nil && stopped {
		err = fmt.Errorf("%w at step %d of %d", ErrStopped, t.at.Step, t.sizes.total)
		if ctx.Err() != nil {
			err = &stoppedError{err, context.Cause(ctx)}
		}
	}
	return rep, err
}

// openInTime is open, unless ctx or the time ends before it does.
func (t *trainer) openInTime(ctx context.Context) error {
	if t.opt.MaxTime > 0 {
		var cancel func()
		ctx, cancel = context.WithDeadline(ctx, t.opt.Began.Add(t.opt.MaxTime))
		defer cancel()
	}
	return beforeFirstStep(ctx, t.open(ctx))
}

// open readies everything a run needs, in the order in which mistakes are
// cheapest to report.
func (t *trainer) open(ctx context.Context) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := t.openDir(ctx); err != nil {
		return err
	}
	t.debugPlan()
	var err error
	if t.dump, err = t.newDumper(); err != nil {
		return err
	}
	ro := residency.ManagerOptions{Strict: t.opt.AssertResident, OnTransfer: t.onTransfer()}
	if t.rt, err = executor.NewRuntime(t.devs, ro); err != nil {
		return err
	}
	if t.prog, err = t.rt.Load(t.program(ctx)); err != nil {
		return err
	}
	snap, err := t.restore(ctx)
	if err != nil {
		return err
	}
	if t.Data.Val != nil {
		if t.eval, err = t.newEvaluator(ctx, t.rt, t.Data.Val); err != nil {
			return err
		}
	}
	t.feed, err = newFeeder(t.devs[t.Plan.Stages[0].Device], t.prog, t.Data.Train, datasets.LoaderOptions{
		Batch: t.sizes.batch, Start: t.at.cursor(), Epochs: t.Config.Train.Epochs - t.at.Epoch,
	})
	if err != nil {
		return err
	}
	if err := t.fill(ctx, snap); err != nil {
		return err
	}
	return t.begin()
}

// program is what the executor needs to train.
func (t *trainer) program(ctx context.Context) executor.LoadOptions {
	return executor.LoadOptions{
		Net: "train", Full: t.Plan, Tail: t.tail, LastMicrobatches: t.sizes.lastMicrobatches(),
		Schedule: t.Config.Partition.Schedule, Constant: t.constant, Stop: stopOf(ctx),
	}
}

// loop runs steps until there are no more, or someone wants to stop.
func (t *trainer) loop(ctx context.Context) (stopped bool, err error) {
	// A cancelled ctx ends the run between steps; what is under way is finished.
	work := context.WithoutCancel(ctx)
	var hurry func()
	t.leisure, hurry = context.WithCancel(ctx)
	defer hurry()
	t.seal()
	t.clock.devices = t.usedDevices()
	t.clock.begin(t.rt.Busy())
	for !t.done() {
		if ctx.Err() != nil || t.timeIsUp() {
			hurry()
			return true, t.pause(work)
		}
		b, err := t.feed.loader.Next(work)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, err
		}
		if err := t.step(work, b); err != nil {
			return false, err
		}
		if err := t.afterStep(work, b); err != nil {
			return false, err
		}
	}
	return false, t.pause(work)
}

func (t *trainer) done() bool {
	return t.stoppedEarly() || t.at.Step >= t.sizes.total || t.opt.MaxSteps > 0 && t.at.Step >= t.opt.MaxSteps
}

// timeIsUp tells whether another step could leave too little time to save.
func (t *trainer) timeIsUp() bool {
	if t.opt.MaxTime <= 0 {
		return false
	}
	const unknown = 100e6 // bytes a second that a first save is taken to reach
	save := max(2*t.between, 2*t.saves.longest, time.Duration(float64(t.stateBytes())/unknown*float64(time.Second)))
	return time.Since(t.opt.Began)+2*t.clock.longest+save >= t.opt.MaxTime
}

// stateBytes is what a checkpoint holds.
func (t *trainer) stateBytes() (n int64) {
	for _, v := range t.Plan.Graph.Vars {
		n += v.Meta.Bytes()
	}
	return n
}

// asked tells whether someone wants a checkpoint now.
func (t *trainer) asked() bool {
	select {
	case _, ok := <-t.opt.SaveNow:
		if !ok {
			t.opt.SaveNow = nil
			return false
		}
		t.opt.Observer.note(fmt.Sprintf("saving at step %d, as asked", t.at.Step))
		return true
	default:
		return false
	}
}

// step queues one step and settles the one before it.
func (t *trainer) step(ctx context.Context, b datasets.Batch) error {
	t.queued = append(t.queued, queued{t.prog.Next(), b})
	if _, err := t.prog.Step(ctx, t.feed.batch(b)); err != nil {
		return err
	}
	t.at.advance(b)
	if t.at.Step == t.first+1 {
		if err := t.reserve(); err != nil {
			return err
		}
	}
	t.rt.Residency.Ledger().Step()
	t.opt.Observer.step(Step{
		Step: t.at.Step, Epoch: b.At.Epoch, InEpoch: b.At.Index/t.sizes.batch + 1,
		Samples: b.Samples, Loss: math.NaN(),
	})
	if len(t.queued) > 1 {
		return t.settle(ctx, 1)
	}
	return nil
}

// settle waits for queued steps until only that many are left, and gives
// their slots back to the loader.
func (t *trainer) settle(ctx context.Context, left int) error {
	for len(t.queued) > left {
		q := t.queued[0]
		if err := t.prog.Wait(ctx, q.ticket); err != nil {
			return err
		}
		t.clock.tick(q.batch.Samples, t.rt.Worked())
		t.debugStep(t.at.Step - len(t.queued) + 1)
		t.feed.loader.Return(q.batch.Slot)
		copy(t.queued, t.queued[1:])
		t.queued = t.queued[:len(t.queued)-1]
	}
	return nil
}

// afterStep does what is due after a step: log, save, end the epoch.
func (t *trainer) afterStep(ctx context.Context, b datasets.Batch) error {
	if err := t.pollSave(); err != nil {
		return err
	}
	c := t.Config
	endOfEpoch := b.Next.Epoch > b.At.Epoch
	logDue := c.Train.LogEvery > 0 && t.at.Step%c.Train.LogEvery == 0
	saveDue := t.asked() || c.Checkpoint.Every > 0 && t.at.Step%c.Checkpoint.Every == 0
	if !endOfEpoch && !logDue && !saveDue {
		return nil
	}
	if err := t.settle(ctx, 0); err != nil {
		return err
	}
	t.clock.stop(t.rt.Busy())
	start := time.Now()
	defer func() {
		t.between = max(t.between, time.Since(start))
		t.clock.begin(t.rt.Busy())
	}()
	if endOfEpoch {
		return t.endEpoch(ctx, b.At.Epoch)
	}
	if logDue {
		if err := t.log(ctx, residency.Log, b.At.Epoch); err != nil {
			return err
		}
	}
	if saveDue {
		return t.save(ctx)
	}
	return nil
}

// pause settles, and logs and saves where the run stands, unless that was just
// done.
func (t *trainer) pause(ctx context.Context) error {
	if err := t.settle(ctx, 0); err != nil {
		return err
	}
	t.clock.stop(t.rt.Busy())
	if err := t.awaitSave(); err != nil {
		return err
	}
	if t.at.Saved == t.at.Step && t.at.Step > 0 {
		return nil
	}
	t.rt.Residency.Unseal() // the run ends here, so its losses come out
	if err := t.log(ctx, residency.Epoch, t.at.lastEpoch()); err != nil {
		return err
	}
	if err := t.save(ctx); err != nil {
		return err
	}
	return t.awaitSave()
}

// constant is the bytes of a per-microbatch constant of the training graph.
func (t *trainer) constant(v *graph.Value, microbatch int) []byte {
	if v.Name != models.BaseName {
		panic("BUG: unknown constant " + v.Name)
	}
	return shape.Bytes([]int32{int32(microbatch * t.sizes.microbatch)})
}

func (t *trainer) parameters() int64 {
	var n int64
	for _, s := range t.Plan.Stages {
		n += s.Parameters
	}
	return n
}

// close frees everything, whatever state the run is in.
func (t *trainer) close() error {
	errs := []error{t.endSaves()}
	if t.rt != nil {
		errs = append(errs, t.rt.Close())
	}
	errs = append(errs, t.dump.close())
	if t.feed != nil {
		errs = append(errs, t.feed.close())
	}
	if t.db != nil {
		errs = append(errs, t.db.Close())
	}
	if t.claim != nil {
		errs = append(errs, t.claim.Close())
	}
	if t.metrics != nil {
		errs = append(errs, t.closeMetrics())
	}
	if t.given != nil {
		errs = append(errs, t.given.close())
	}
	return errors.Join(errs...)
}
