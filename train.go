package berth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/executor/infer"
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
	*setup
	opt     TrainOptions
	dir     *rundir.Folder
	rt      *executor.Runtime
	prog    *executor.Program
	eval    *infer.Evaluator // nil without a validation part
	feed    *feed.Feeder
	dump    *dumper
	given   *initial.Values // of a run that begins
	at      runstate.Progress
	losses  []float64 // of every logged step
	clock   stepClock
	saves   saver
	between time.Duration   // the longest that evaluating and saving took
	first   int             // steps taken before this call
	leisure context.Context // ends when someone wants the run to end soon
}

// Train trains until the config's epochs, MaxSteps or early stopping, and
// returns the report. When ctx is cancelled it finishes the step, saves and
// returns ErrStopped along with a report; before the first step, without one.
func (r *Run) Train(ctx context.Context, o TrainOptions) (*Report, error) {
	if o.Began.IsZero() {
		o.Began = time.Now()
	}
	t := &trainer{Run: r, setup: r.setup, opt: o}
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
		if t.eval, err = infer.NewEvaluator(ctx, t.rt, t.model(), t.Data.Val); err != nil {
			return err
		}
	}
	t.feed, err = feed.New(t.devs[t.Plan.Stages[0].Device], t.prog, t.Data.Train, datasets.LoaderOptions{
		Batch: t.sizes.batch, Start: t.at.Cursor(), Epochs: t.Config.Train.Epochs - t.at.Epoch,
	})
	if err != nil {
		return err
	}
	if err := t.fill(ctx, snap); err != nil {
		return err
	}
	text, err := rootedText(t.Config)
	if err != nil {
		return err
	}
	t.losses, t.at.Logged, err = t.dir.Start(text, t.at.Step)
	return err
}

// openDir makes the run folder and opens its checkpoints.
func (t *trainer) openDir(ctx context.Context) error {
	err := errors.Join(t.opt.check(), t.checkOutputs())
	if err != nil {
		return err
	}
	if t.given, err = initial.Open(t.opt.Init, t.Config.Seed, t.Plan.Graph.Vars); err != nil {
		return err
	}
	mode := rundir.Begin
	switch {
	case t.opt.Fresh:
		mode = rundir.Fresh
	case t.opt.Resume:
		mode = rundir.Resume
	}
	t.dir, err = rundir.Open(ctx, t.opt.Dir, rundir.OpenOptions{Mode: mode, Checkpoints: t.checkpointOptions(), Note: t.opt.Observer.note})
	return err
}

// checkOutputs refuses paths that the report and the dump should not be written to.
func (t *trainer) checkOutputs() error {
	reads := readsOf(t.Config, Weights{Dir: t.opt.Dir, Init: t.opt.Init})
	if to := t.opt.Report; to != "" && !rundir.SameFile(to, filepath.Join(t.opt.Dir, rundir.ReportName)) {
		if err := rundir.CheckOutput(to, reads...); err != nil {
			return fmt.Errorf("report %w", err)
		}
	}
	dir := t.opt.Dump
	if st, err := os.Stat(dir); dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil // or it is made
	} else if err != nil || !st.IsDir() {
		return fmt.Errorf("dump %s: %w: a folder is needed", dir, ErrOutput)
	}
	for _, name := range dumped {
		if err := rundir.CheckOutput(filepath.Join(dir, name), reads...); err != nil {
			return fmt.Errorf("dump %w", err)
		}
	}
	return nil
}

func (t *trainer) checkpointOptions() checkpoint.Options {
	t.saves.bound = bounded(t.Config, t.stateBytes())
	return checkpoint.Options{
		Compress: t.Config.Checkpoint.Compress == "zstd", TxBytes: int(t.saves.txBytes()), ChunkBytes: t.saves.chunkBytes(),
	}
}

// restore finds what the variables begin with, and where the run then stands:
// the newest whole checkpoint, or (nil) the initialisation.
func (t *trainer) restore(ctx context.Context) (*checkpoint.Snapshot, error) {
	if !t.opt.Resume {
		return nil, nil
	}
	snap, skipped, err := t.dir.Newest(ctx)
	t.tellSkipped(skipped)
	if err != nil {
		return nil, err
	}
	from, err := t.resume(snap, t.opt.AllowChanged, t.opt.Observer.note)
	if err != nil {
		return nil, err
	}
	t.at, t.sizes.total = from.at, from.total
	t.opt.Observer.note(t.standing())
	return snap, nil
}

// standing says where a resumed run stands, and what is left of it.
func (t *trainer) standing() string {
	step, total := t.at.Step, t.sizes.total
	switch {
	case t.stoppedEarly():
		return fmt.Sprintf("the run in %s is complete: it stopped early, at step %d of %d", t.opt.Dir, step, total)
	case step >= total:
		return fmt.Sprintf("the run in %s is complete: %d steps", t.opt.Dir, step)
	case t.done():
		return fmt.Sprintf("nothing to do: the run in %s is at step %d of %d, and --max-steps %d asks for no more; leave it out to complete the run", t.opt.Dir, step, total, t.opt.MaxSteps)
	}
	return fmt.Sprintf("resuming at step %d of %d (epoch %d) from %s", step, total, t.at.Epoch+1, rundir.CheckpointPath(t.opt.Dir))
}

// fill copies the variables' first contents to their devices.
func (t *trainer) fill(ctx context.Context, snap *checkpoint.Snapshot) error {
	if snap != nil {
		return t.prog.Init(ctx, initial.FromSnapshot(snap))
	}
	return errors.Join(t.prog.Init(ctx, t.given.Read), t.given.Close())
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
		b, err := t.feed.Next(work)
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
	if err := t.feed.Step(ctx, b); err != nil {
		return err
	}
	t.at.Advance(b)
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
	if t.feed.Queued() > 1 {
		return t.settle(ctx, 1)
	}
	return nil
}

// settle waits for queued steps until only that many are left.
func (t *trainer) settle(ctx context.Context, left int) error {
	return t.feed.Settle(ctx, left, func(b datasets.Batch) error {
		t.clock.tick(b.Samples, t.rt.Worked())
		t.debugStep(t.at.Step - t.feed.Queued() + 1)
		return nil
	})
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
	if err := t.log(ctx, residency.Epoch, t.at.LastEpoch()); err != nil {
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
		errs = append(errs, t.feed.Close())
	}
	if t.dir != nil {
		errs = append(errs, t.dir.Close())
	}
	if t.given != nil {
		errs = append(errs, t.given.Close())
	}
	return errors.Join(errs...)
}
