package train

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/checkpoint/saver"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// attempt is training until it ends, or a device is lost: what it holds open, and how far it has
// come.
type attempt struct {
	run     *Run
	session *session.Session
	opt     Options
	rate    ops.LearningRate
	losses  []DeviceLoss    // of the attempts before, in the same call
	ending  <-chan struct{} // closed when the run is to end soon
	fetches bool            // the program reads variables between steps

	opened

	at       runstate.Progress
	goal     goal
	journal  journal
	answer   *answer.Engine // nil before the first outputs that the program asks for
	slowest  atomic.Int64   // nanoseconds of the longest step so far
	done     int            // steps taken that have ended
	failed   int            // the step that failed, from 1; 0: none did
	warned   int            // the step at whose boundary the loss was far above that of guessing; 0: at none
	refused  []string       // warnings of segments that go on op by op
	retried  int            // copies that failed and were repeated
	turns    bool           // it has given its memory to a run that takes turns with it
	written  int64          // bytes that this run had on a shared device that was lost
	restaged restaged

	predicted *partition.Prediction // of a step; nil before the loop has ended well
}

// opened is what open sets, and close gives back. Of it, load and eval change where stages get other blocks.
type opened struct {
	devices []device.Device // of the run; their operations fail as Options.Faults asks
	values  *initial.Values // first values; nil before they are opened
	base    *runstate.Base  // the weights that an adapter is trained beside; nil without one, and on ranks above 0
	folder  *rundir.Folder
	bound   saver.Bound
	held    int64 // bytes of the host memory that residency counts for saves and decoded images
	dump    *trace.Dump
	rt      *executor.Runtime
	load    executor.LoadOptions // of the training program
	prog    *executor.Program
	eval    *infer.Evaluator // nil without a validation part
	part    *datasets.Part   // that feed reads
	val     *datasets.Part   // that eval reads; nil if there is none
	feed    *feed.Feeder
	saves   *saver.Saver
}

// open readies everything a run needs, in the order in which mistakes are
// cheapest to report. The caller closes the attempt, also after an error.
func (a *attempt) open(ctx context.Context) (err error) {
	if err := a.decide(ctx, "its run folder", a.openFiles(ctx)); err != nil {
		return err
	}
	return a.openWith(ctx)
}

// openFiles checks the options, and opens the files of first values and of the run, which rank 0 alone has.
func (a *attempt) openFiles(ctx context.Context) (err error) {
	if err := errors.Join(a.session.Usable(), a.checkRanks()); err != nil {
		return err
	}
	init := ""
	if a.leads() {
		if err := errors.Join(a.opt.check(), a.opt.checkOutputs(a.session.Inputs(a.opt.Init))); err != nil {
			return err
		}
		init = a.opt.Init
	}
	a.bound = a.session.SaveBound()
	if a.session.Shared() && len(a.opt.Faults) > 0 {
		return fmt.Errorf("%w: the devices are shared, so faults cannot be injected for one training: give them to OpenDevices", errs.ErrOptions)
	}
	if a.session.Shared() {
		a.devices = a.session.Devices // which have their faults
	} else if a.devices == nil {
		if a.devices, err = fault.Wrap(a.session.Devices, a.opt.Faults); err != nil {
			return err
		}
	}
	if a.values, err = initial.Open(ctx, init, a.session.Config.Seed, a.session.Plan.Graph.Vars); err != nil || !a.leads() {
		return err
	}
	if err := a.openBase(ctx); err != nil {
		return err
	}
	return a.openFolder(ctx)
}

// openWith is open, once there are first values and the run folder.
func (a *attempt) openWith(ctx context.Context) error {
	contents, err := a.openState(ctx)
	if err = a.decide(ctx, "its program", err); err != nil {
		return err
	}
	lends, err := a.share(ctx)
	if err != nil {
		return err
	}
	if err := a.agree(ctx, "its data", a.openData(ctx, a.run.Data)); err != nil {
		return err
	}
	if err := a.decide(ctx, "its first weights", a.begins(ctx, contents, lends)); err != nil {
		return err
	}
	return a.decide(ctx, "its metrics", a.start(ctx))
}

// openState finds where the run stands and what its variables begin with, and opens the program.
func (a *attempt) openState(ctx context.Context) (c executor.Contents, err error) {
	if !a.opt.Resume || !a.leads() {
		c = session.ContentsOf(a.values)
	} else {
		snap, err := a.restore(ctx)
		if err != nil {
			return c, err
		}
		if c, err = a.goesOn(ctx, snap); err != nil {
			return c, err
		}
	}
	return c, a.openProgram(ctx)
}

// begins gives the variables their first contents. With lends, other ranks get them from rank 0.
func (a *attempt) begins(ctx context.Context, contents executor.Contents, lends bool) error {
	contents.Again = a.session.Plan.AnyTight()
	a.values.Until(stop.Of(ctx))
	if err := a.fill(ctx, contents, lends); err != nil {
		if a.opt.Resume && errors.Is(err, safetensors.ErrFinite) {
			err = fmt.Errorf("%w; %s", err, a.withoutNewest())
		}
		return err
	}
	a.values.Until(nil)
	if !a.session.Plan.AnyTight() {
		return a.values.Close()
	}
	return nil
}

func (a *attempt) openFolder(ctx context.Context) (err error) {
	c := a.session.Config.Checkpoint
	a.folder, err = rundir.Open(ctx, a.opt.Dir, rundir.OpenOptions{
		Mode: a.opt.mode(), TensorBoard: a.session.Config.Train.TensorBoard, Note: a.opt.Observer.note, Warn: a.opt.Observer.warn,
		Checkpoints: checkpoint.OpenOptions{
			Compress: c.Compress == "zstd", TxBytes: int(a.bound.TxBytes()), ChunkBytes: a.bound.ChunkBytes(),
		},
	})
	return err
}

// openProgram compiles the training program, and opens the dump.
func (a *attempt) openProgram(ctx context.Context) (err error) {
	a.session.Debug().Plan(a.session.Devices, a.session.Plan)
	to := a.opt
	if to.Dump == "" && a.session.Config.Devices.Runs(configs.OpByOpTrace) {
		to.Dump = filepath.Join(to.Dir, "dump")
	}
	if c := a.crew(); c != nil && to.Dump != "" {
		to.Dump = filepath.Join(to.Dump, fmt.Sprintf("rank%d", c.Rank()))
	}
	if to.Dump != "" {
		order, err := a.session.Schedule()
		if err = cmp.Or(err, to.makeDump()); err != nil {
			return err
		}
		if a.dump, err = trace.NewDump(to.Dump, a.session.Config.Name, a.session.Plan, order, a.session.Spans(), rundir.WriteOwn); err != nil {
			return err
		}
	}
	passing, err := a.session.Passing(ctx)
	if err != nil {
		return err
	}
	o := residency.TenantOptions{
		Strict: a.opt.AssertResident, Passing: passing, OnTransfer: a.session.Debug().Transfers(a.dump),
		HostBytes: a.bound.Takes(a.session.Plan.Graph.Vars) - a.bound.Held(), // of saves
		HeldBytes: a.session.Batches + a.bound.Held() + a.session.Images,
		Floors:    a.session.Judge.Floors, Peaks: a.session.Judge.Peaks,
		Turns:   !a.fetches, // who takes steps one by one decides when others go on
		Waiting: func() { a.opt.Observer.note("waiting until other runs leave enough memory") },
		Yielded: a.yielded,
	}
	if a.base != nil {
		if o.Base, err = a.session.Base(a.base.SHA256, func(v *graph.Value) bool { return v.Tagged(graph.BaseTag) }); err != nil {
			return err
		}
	}
	if a.rt, err = a.session.Runtime(ctx, a.devices, a.opt.Dir, o); err != nil {
		return err
	}
	a.tellShared()
	if a.dump != nil {
		a.session.OnLaunch(a.rt)
	}
	a.session.Watch(a.rt, a.ending, a.patience)
	held := a.bound.Held() + a.session.Images
	if err := a.rt.Residency.HoldHost(held); err != nil {
		return err
	}
	a.held = held
	a.load = a.run.now.program(ctx)
	a.load.Constant = a.constant
	a.prog, err = a.rt.Load(a.load)
	return err
}

// yielded tells once that the run takes turns.
func (a *attempt) yielded() {
	if !a.turns {
		a.turns = true
		a.opt.Observer.note("takes turns with other runs: the devices have no room for what they all need")
	}
}

// patience is the longest that an operation may take once the run is to end. A
// slower one counts as hanging: a whole step took a quarter of that.
func (a *attempt) patience() time.Duration {
	return max(session.LeastPatience, 4*time.Duration(a.slowest.Load()))
}

// constant is the bytes of a per-microbatch constant of the training graph.
func (a *attempt) constant(v *graph.Value, microbatch int) []byte {
	if v.Name != models.BaseName {
		panic("BUG: unknown constant " + v.Name)
	}
	return shape.Bytes([]int32{int32(microbatch * a.session.Sizes.Microbatch)})
}

// seal has residency refuse copies until the next boundary. Only the batch goes in, and only
// what log_every, a watch or fetches bring out comes out.
func (a *attempt) seal() {
	var reasons []ledger.Reason
	if a.session.Config.Train.LogEvery > 0 {
		reasons = append(reasons, ledger.Log)
	}
	if a.session.Config.Train.Watch > 0 {
		reasons = append(reasons, ledger.Watch)
	}
	if a.fetches || a.opt.Observer.inspects() {
		reasons = append(reasons, ledger.Fetch)
	}
	boundary.Seal(a.rt.Residency, reasons...)
}

// restore finds the checkpoint to go on from, and where the run then stands.
func (a *attempt) restore(ctx context.Context) (*checkpoint.Snapshot, error) {
	snap, skipped, err := a.folder.Newest(ctx)
	a.journal.damaged(skipped)
	if err != nil {
		return nil, err
	}
	now, err := a.session.RunLineage()
	if err != nil {
		return nil, err
	}
	now.Longer = a.run.longer
	if a.at, a.goal.steps, err = now.Resume(snap, a.opt.AllowChanged, a.opt.Observer.note); err != nil {
		return nil, err
	}
	a.opt.Observer.note(a.goal.standing(&a.at, a.opt.Dir))
	return snap, nil
}

// openData begins to read the training part from where the run stands.
func (a *attempt) openData(ctx context.Context, data *datasets.Dataset) (err error) {
	if data.Val != nil {
		if a.eval, err = infer.NewEvaluator(ctx, a.rt, a.session.Judge.Model(a.session.Model()), data.Val); err != nil {
			return err
		}
	}
	a.part, a.val = data.Train, data.Val
	a.feed, err = feed.New(a.feeding(), a.prog, data.Train, datasets.LoaderOptions{
		Batch: a.session.Sizes.Batch, Start: a.at.Cursor(), Epochs: a.session.Sizes.Pace.EpochsFrom(&a.at, a.goal.steps),
	})
	return err
}

// feeding is the device from whose host memory batches go in. All kinds copy from any
// host memory, and one that does not address it itself copies fastest from its own.
func (a *attempt) feeding() device.Device {
	var first device.Device
	for _, d := range a.session.Plan.Devices() {
		if !a.session.Here(d) {
			continue
		}
		if !a.devices[d].Spec().HostVisible {
			return a.devices[d]
		}
		if d == a.session.Plan.Stages[0].Device || first == nil {
			first = a.devices[d]
		}
	}
	for d := 0; first == nil; d++ { // the plan has nothing for this rank
		if a.session.Here(d) {
			first = a.devices[d]
		}
	}
	return first
}

// start makes the folder's files those of this run, and readies saving.
func (a *attempt) start(ctx context.Context) error {
	k := a.session.Config.Checkpoint.Keep
	o := saver.NewOptions{
		Bound: a.bound, Ranks: a.savers(), Keep: checkpoint.Keep{Last: k.Last, Best: k.Best, Every: k.Every},
		Damaged: a.journal.damaged, Note: a.opt.Observer.note,
		Saved: func(x saver.Saved) {
			a.at.Saved = x.Step
			if a.leads() {
				a.opt.Observer.saved(x)
			}
		},
	}
	if a.leads() {
		if err := a.startFolder(ctx); err != nil {
			return err
		}
		o.DB = a.folder.DB
	}
	a.saves = saver.New(a.rt.Residency, a.session.Plan.Graph, a.prog.Var, o)
	return nil
}

// startFolder makes the folder's files those of this run.
func (a *attempt) startFolder(ctx context.Context) error {
	text, err := a.session.Kept()
	if err != nil {
		return err
	}
	standing := rundir.Standing{Step: a.at.Step, Again: max(a.at.Began, a.at.Lost), Every: a.session.Config.Train.LogEvery, Lines: a.at.Lines}
	if a.at.Logged, err = a.folder.Start(ctx, text, standing); err != nil {
		return err
	}
	if err := keepTokenizer(a.folder, a.session.Info); err != nil {
		a.opt.Observer.note(fmt.Sprintf("%v: nothing is lost, since the checkpoints hold the tokenizer", err))
	}
	a.journal.metrics = a.folder.Metrics
	return nil
}

// manifest says where the run stands.
func (a *attempt) manifest() (m checkpoint.Manifest, err error) {
	if !a.leads() {
		return checkpoint.Manifest{Step: a.at.Step}, nil
	}
	a.at.Lines = a.journal.metrics.Lines()
	extra, err := json.Marshal(runstate.State{Progress: a.at, Data: *a.session.Info, EpochSteps: a.session.Sizes.Steps, Base: a.base})
	if err != nil {
		return m, err
	}
	text, err := a.session.Kept()
	if err != nil {
		return m, err
	}
	now, err := a.session.RunLineage()
	if err != nil {
		return m, err
	}
	prints, err := now.Fingerprints()
	return checkpoint.Manifest{
		Step: a.at.Step, Epoch: a.at.Epoch, Index: a.at.Index, Fingerprints: prints,
		Metrics: a.at.Metrics(), Best: a.at.Best, Extra: extra, Config: text,
	}, err
}

// notes say how the run is other than its user may expect.
func (a *attempt) notes() []string {
	list := a.session.Notes()
	if text := a.bound.Exceeded(a.session.Plan.Graph.Vars); text != "" && a.session.Config.Devices.HostMemory == 0 { // beyond it, a file takes it
		list = append(list, text)
	}
	if text := a.values.Fit(); text != "" {
		list = append(list, text)
	}
	from, frozen := a.opt.Init, !a.opt.Resume && len(a.session.Config.Optimizer.Freeze) > 0
	if a.session.Spec.LoRA != nil {
		frozen = true
		if from == "" && a.base != nil { // the run goes on
			from = a.base.Init
		}
	}
	if x := a.values.Stream(); x != nil && frozen && a.session.Plan.AnyTight() {
		list = append(list, fmt.Sprintf("%s is compressed: frozen weights that leave a device come back by unpacking it anew, up to %s for each pass of the model; unpacked (gunzip, zstd -d), it takes less time",
			from, units.Bytes(x.Bytes())))
	}
	return list
}

// tellRefused tells of segments that go on op by op, since they could not be compiled.
func (a *attempt) tellRefused() {
	if text := executor.RefusedText(a.rt.Refused()); text != "" {
		a.refused = append(a.refused, text)
		a.opt.Observer.warn(text)
	}
}

// tellRetried tells of the copies that failed and were repeated.
func (a *attempt) tellRetried() {
	for _, err := range a.rt.Retried() {
		a.retried++
		a.opt.Observer.warn(executor.TryingAgain(err))
	}
}

// newest is the step of the newest checkpoint, 0 if there is none.
func (o *opened) newest() int {
	if o.folder == nil || o.folder.DB == nil {
		return 0
	}
	list, _, err := o.folder.DB.List()
	if err != nil || len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Step
}

// endSaves waits for the save under way, and frees the staging memory.
func (o *opened) endSaves() error {
	if o.saves == nil {
		return nil
	}
	return o.saves.Close()
}

// close frees everything, however far opening came. The calls are deferred, the
// first one last: should an observer panic in one, the others follow.
func (o *opened) close() (err error) {
	end := func(close func() error) { err = errors.Join(err, close()) }
	if o.folder != nil {
		defer end(o.folder.Close)
	}
	if o.values != nil {
		defer end(o.values.Close)
	}
	if o.feed != nil {
		defer end(o.feed.Close)
	}
	defer end(o.dump.Close)
	if o.rt != nil {
		defer o.rt.Residency.ReleaseHost(o.held)
		defer end(o.rt.Close)
	}
	defer end(o.endSaves)
	return nil
}

// executableReport reports the executables of a call that began after so many steps.
func (a *attempt) executableReport(first int) ExecutableReport {
	a.tellRefused()
	c := a.rt.Compiled()
	r := ExecutableReport{Executables: session.ExecutablesOf(c), Seconds: c.Time.Seconds(), Refused: a.refused}
	if from := int(a.prog.CompiledFrom()); from > 0 {
		r.From = first + from
	}
	return r
}

// rings are the losses and hits that steps recorded on the devices.
func (a *attempt) rings() boundary.Rings {
	return boundary.Rings{Runtime: a.rt, Program: a.prog}
}

// keepTokenizer puts a learnt tokenizer, or that of a file, into the run folder.
func keepTokenizer(f *rundir.Folder, info *datasets.Info) error {
	bpe, ok := info.Tokenizer.(*tokenizer.BPE)
	if !ok {
		return nil
	}
	var text bytes.Buffer
	if err := bpe.Write(&text); err != nil {
		return err
	}
	settings, err := info.Chat.File()
	if err != nil {
		return err
	}
	return f.SetTokenizer(text.Bytes(), settings)
}
