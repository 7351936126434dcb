package berth

import (
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
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// session is what one call of Train holds open.
type session struct {
	*setup
	opt     TrainOptions
	goal    goal
	at      runstate.Progress
	journal journal
	folder  *rundir.Folder
	bound   saver.Bound
	held    int64 // bytes of the host memory that residency counts for saves
	dump    *trace.Dump
	devices []device.Device // of the run; their operations fail as TrainOptions.Faults asks
	rt      *executor.Runtime
	load    executor.LoadOptions // of the training program
	prog    *executor.Program
	eval    *infer.Evaluator // nil without a validation part
	part    *datasets.Part   // that feed reads
	val     *datasets.Part   // that eval reads; nil if there is none
	feed    *feed.Feeder
	answer  *answer.Engine // nil before the first outputs that the program asks for
	saves   *saver.Saver
	rate    ops.LearningRate
	values  *initial.Values // first values; nil before they are opened
	ending  <-chan struct{} // closed when the run is to end soon
	slowest atomic.Int64    // nanoseconds of the longest step so far
	losses  []DeviceLoss    // of the sessions before, in the same call
	fetches bool            // the program reads variables between steps
	done    int             // steps taken that have ended
	failed  int             // the step that failed, from 1; 0: none did
	refused []string        // warnings of segments that go on op by op
	retried int             // copies that failed and were repeated
	written int64           // bytes that this run had on a shared device that was lost
}

// open readies everything a run needs, in the order in which mistakes are
// cheapest to report. The caller closes the session, also after an error.
func (s *session) open(ctx context.Context, r *Run) (err error) {
	if err := s.usable(); err != nil {
		return err
	}
	if err := errors.Join(s.opt.check(), s.opt.checkOutputs(inputsOf(s.config, Weights{Init: s.opt.Init}))); err != nil {
		return err
	}
	if s.shared != nil && len(s.opt.Faults) > 0 {
		return fmt.Errorf("%w: faults of shared devices are given to OpenDevices", ErrOptions)
	}
	if s.shared != nil {
		s.devices = s.devs // which have their faults
	} else if s.devices == nil {
		if s.devices, err = fault.Wrap(s.devs, s.opt.Faults); err != nil {
			return err
		}
	}
	if s.values, err = initial.Open(ctx, s.opt.Init, s.config.Seed, s.plan.Graph.Vars); err != nil {
		return err
	}
	return s.openWith(ctx, r)
}

// openWith is open, once there are first values.
func (s *session) openWith(ctx context.Context, r *Run) error {
	if err := s.openFolder(ctx); err != nil {
		return err
	}
	if err := s.openProgram(ctx, r); err != nil {
		return err
	}
	contents := contentsOf(s.values)
	if s.opt.Resume {
		snap, err := s.restore(ctx)
		if err != nil {
			return err
		}
		contents = executor.Contents{Write: initial.FromRun(s.folder.DB, snap)}
	}
	if err := s.openData(ctx, r.Data); err != nil {
		return err
	}
	contents.Again = s.anyTight()
	s.values.Until(stopOf(ctx))
	if err := s.prog.InitFrom(ctx, contents); err != nil {
		return err
	}
	s.values.Until(nil)
	if !s.anyTight() {
		if err := s.values.Close(); err != nil {
			return err
		}
	}
	return s.start(ctx)
}

func (s *session) openFolder(ctx context.Context) (err error) {
	c := s.config.Checkpoint
	s.bound = s.saveBound()
	s.folder, err = rundir.Open(ctx, s.opt.Dir, rundir.OpenOptions{
		Mode: s.opt.mode(), TensorBoard: s.config.Train.TensorBoard, Note: s.opt.Observer.note, Warn: s.opt.Observer.warn,
		Checkpoints: checkpoint.OpenOptions{
			Compress: c.Compress == "zstd", TxBytes: int(s.bound.TxBytes()), ChunkBytes: s.bound.ChunkBytes(),
		},
	})
	return err
}

// openProgram compiles the training program, and opens the dump.
func (s *session) openProgram(ctx context.Context, r *Run) (err error) {
	s.debug.Plan(s.devs, s.plan)
	if s.opt.Dump == "" && s.config.Devices.Runs(configs.OpByOpTrace) {
		s.opt.Dump = filepath.Join(s.opt.Dir, "dump")
	}
	if s.opt.Dump != "" {
		order, err := r.Schedule()
		if err = cmp.Or(err, s.opt.makeDump()); err != nil {
			return err
		}
		if s.dump, err = trace.NewDump(s.opt.Dump, s.config.Name, s.plan, order, &s.spans, rundir.WriteOwn); err != nil {
			return err
		}
	}
	passing, err := s.passing(ctx)
	if err != nil {
		return err
	}
	o := residency.TenantOptions{
		Strict: s.opt.AssertResident, Passing: passing, OnTransfer: s.debug.Transfers(s.dump),
		HostBytes: s.bound.Takes(s.plan.Graph.Vars) - s.bound.Held(), // of saves
		HeldBytes: s.batches + s.bound.Held(),
		Floors:    s.judge.Floors, Peaks: s.judge.Peaks,
		Waiting: func() { s.opt.Observer.note("waiting until other runs leave enough device memory") },
	}
	if s.rt, err = s.runtime(ctx, s.devices, s.opt.Dir, o); err != nil {
		return err
	}
	if s.dump != nil {
		s.rt.OnLaunch(s.onLaunch)
	}
	s.watch(s.rt, s.ending, s.patience)
	if err := s.rt.Residency.HoldHost(s.bound.Held()); err != nil {
		return err
	}
	s.held = s.bound.Held()
	s.load = r.program(ctx)
	s.load.Constant = s.constant
	s.prog, err = s.rt.Load(s.load)
	return err
}

// patience is the longest that an operation may take once the run is to end. A
// slower one counts as hanging: a whole step took a quarter of that.
func (s *session) patience() time.Duration {
	return max(leastPatience, 4*time.Duration(s.slowest.Load()))
}

// constant is the bytes of a per-microbatch constant of the training graph.
func (s *session) constant(v *graph.Value, microbatch int) []byte {
	if v.Name != models.BaseName {
		panic("BUG: unknown constant " + v.Name)
	}
	return shape.Bytes([]int32{int32(microbatch * s.sizes.microbatch)})
}

// seal begins the steps after a boundary: only the batch goes in, and only what the
// config asks for comes out.
func (s *session) seal() {
	var reasons []ledger.Reason
	if s.config.Train.LogEvery > 0 {
		reasons = append(reasons, ledger.Log)
	}
	if s.config.Train.Watch > 0 {
		reasons = append(reasons, ledger.Watch)
	}
	if s.fetches || s.opt.Observer.inspects() {
		reasons = append(reasons, ledger.Fetch)
	}
	boundary.Seal(s.rt.Residency, reasons...)
}

// restore finds the checkpoint to go on from, and where the run then stands.
func (s *session) restore(ctx context.Context) (*checkpoint.Snapshot, error) {
	snap, skipped, err := s.folder.Newest(ctx)
	s.journal.damaged(skipped)
	if err != nil {
		return nil, err
	}
	now, err := s.runLineage()
	if err != nil {
		return nil, err
	}
	if s.at, s.goal.steps, err = now.Resume(snap, s.opt.AllowChanged, s.opt.Observer.note); err != nil {
		return nil, err
	}
	s.opt.Observer.note(s.goal.standing(&s.at, s.opt.Dir))
	return snap, nil
}

// openData begins to read the training part from where the run stands.
func (s *session) openData(ctx context.Context, data *datasets.Dataset) (err error) {
	if data.Val != nil {
		if s.eval, err = infer.NewEvaluator(ctx, s.rt, s.judge.Model(s.model()), data.Val); err != nil {
			return err
		}
	}
	s.part, s.val = data.Train, data.Val
	s.feed, err = feed.New(s.feeding(), s.prog, data.Train, datasets.LoaderOptions{
		Batch: s.sizes.batch, Start: s.at.Cursor(), Epochs: s.sizes.pace.EpochsFrom(&s.at, s.goal.steps),
	})
	return err
}

// feeding is the device from whose host memory batches go in. All kinds copy from any
// host memory, and one that does not address it itself copies fastest from its own.
func (s *session) feeding() device.Device {
	for _, d := range s.plan.Devices() {
		if !s.devices[d].Spec().HostVisible {
			return s.devices[d]
		}
	}
	return s.devices[s.plan.Stages[0].Device]
}

// start makes the folder's files those of this run, and readies saving.
func (s *session) start(ctx context.Context) error {
	text, err := s.config.Kept()
	if err != nil {
		return err
	}
	if s.at.Logged, err = s.folder.Start(ctx, text, s.at.Step); err != nil {
		return err
	}
	if err := keepTokenizer(s.folder, s.info); err != nil {
		s.opt.Observer.note(fmt.Sprintf("%v: the checkpoints hold the tokenizer, too", err))
	}
	s.journal.metrics = s.folder.Metrics
	k := s.config.Checkpoint.Keep
	s.saves = saver.New(s.rt.Residency, s.plan.Graph, s.prog.Var, saver.NewOptions{
		DB: s.folder.DB, Bound: s.bound, Keep: checkpoint.Keep{Last: k.Last, Best: k.Best, Every: k.Every},
		Damaged: s.journal.damaged, Note: s.opt.Observer.note,
		Saved: func(x saver.Saved) {
			s.at.Saved = x.Step
			s.opt.Observer.saved(Saved(x))
		},
	})
	return nil
}

// manifest says where the run stands.
func (s *session) manifest() (m checkpoint.Manifest, err error) {
	extra, err := json.Marshal(runstate.State{Progress: s.at, Data: *s.info, EpochSteps: s.sizes.steps})
	if err != nil {
		return m, err
	}
	text, err := s.config.Kept()
	if err != nil {
		return m, err
	}
	now, err := s.runLineage()
	if err != nil {
		return m, err
	}
	prints, err := now.Fingerprints()
	return checkpoint.Manifest{
		Step: s.at.Step, Epoch: s.at.Epoch, Index: s.at.Index, Fingerprints: prints,
		Metrics: s.at.Metrics(), Best: s.at.Best, Extra: extra, Config: text,
	}, err
}

// notes say how the run is other than its user may expect.
func (s *session) notes() []string {
	list := s.setup.notes()
	if text := s.bound.Exceeded(s.plan.Graph.Vars); text != "" && s.config.Devices.HostMemory == 0 { // beyond it, a file takes it
		list = append(list, text)
	}
	if x := s.values.Stream(); x != nil && !s.opt.Resume && s.anyTight() && len(s.config.Optimizer.Freeze) > 0 {
		list = append(list, fmt.Sprintf("%s is compressed: frozen weights that leave a device come back by unpacking it anew, up to %s for each pass of the model; unpacked (gunzip, zstd -d), it takes less time",
			s.opt.Init, units.Bytes(x.Bytes())))
	}
	return list
}

// parameters is the number of the model's parameters.
func (s *session) parameters() (n int64) {
	for _, x := range s.plan.Stages {
		n += x.Parameters
	}
	return n
}

// tellRefused tells of segments that go on op by op, since they could not be compiled.
func (s *session) tellRefused() {
	if text := executor.RefusedText(s.rt.Refused()); text != "" {
		s.refused = append(s.refused, text)
		s.opt.Observer.warn(text)
	}
}

// tellRetried tells of the copies that failed and were repeated.
func (s *session) tellRetried() {
	for _, err := range s.rt.Retried() {
		s.retried++
		s.opt.Observer.warn(executor.TryingAgain(err))
	}
}

// lastGood says where to go on from after a failure.
func (s *session) lastGood() string {
	list, _, err := s.folder.DB.List()
	if err != nil || len(list) == 0 {
		return "there is no checkpoint yet: lower the learning rate or set optimizer.clip_norm"
	}
	m := list[len(list)-1]
	return fmt.Sprintf("the last good checkpoint is of step %d in %s: export it, and begin a run from it (--init) with a lower learning rate or with optimizer.clip_norm",
		m.Step, s.folder.DB.Path())
}

// newest is the step of the newest checkpoint, 0 if there is none.
func (s *session) newest() int {
	if s.folder == nil || s.folder.DB == nil {
		return 0
	}
	list, _, err := s.folder.DB.List()
	if err != nil || len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Step
}

// endSaves waits for the save under way, and frees the staging memory.
func (s *session) endSaves() error {
	if s.saves == nil {
		return nil
	}
	return s.saves.Close()
}

// close frees everything, however far opening came. The calls are deferred, the
// first one last: should an observer panic in one, the others follow.
func (s *session) close() (err error) {
	end := func(close func() error) { err = errors.Join(err, close()) }
	if s.folder != nil {
		defer end(s.folder.Close)
	}
	if s.values != nil {
		defer end(s.values.Close)
	}
	if s.feed != nil {
		defer end(s.feed.Close)
	}
	defer end(s.dump.Close)
	if s.rt != nil {
		defer s.rt.Residency.ReleaseHost(s.held)
		defer end(s.rt.Close)
	}
	defer end(s.endSaves)
	return nil
}

// executableReport reports the executables of a call that began after so many steps.
func (s *session) executableReport(first int) ExecutableReport {
	s.tellRefused()
	c := s.rt.Compiled()
	r := ExecutableReport{Executables: executablesOf(c), Seconds: c.Time.Seconds(), Refused: s.refused}
	if from := int(s.prog.CompiledFrom()); from > 0 {
		r.From = first + from
	}
	return r
}

// rings are the losses and hits that steps recorded on the devices.
func (s *session) rings() boundary.Rings {
	return boundary.Rings{Runtime: s.rt, Program: s.prog}
}
