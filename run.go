package berth

import (
	"cmp"
	"context"
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/executor/train"
	"github.com/berth-ml/berth/executor/trained"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/planning"
)

// StepTiming says how steps were timed.
type StepTiming = session.StepTiming

// Run is a config made concrete for training: data, model, devices and plan.
// One goroutine uses it at a time, but for Suspend, Continue, Memory and TraceStep.
type Run struct {
	Config *configs.Config // with bytes for the devices' memory
	// Data is for reading: on shared Devices, other runs may have it, too.
	Data *datasets.Dataset

	run *train.Run
}

// OpenOptions are the options of Open. The zero value opens the config's own devices, for
// the config's own data and model.
type OpenOptions = train.OpenOptions

// Open checks the config, reads the data, opens the devices and plans. It
// copies nothing to a device. Where ctx ends meanwhile, the error is its cause.
// The caller closes the run.
//
// On shared [Devices], the config's section devices counts for little: see there.
func Open(ctx context.Context, c *configs.Config, o OpenOptions) (*Run, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	r, err := train.Open(ctx, c, o)
	if err != nil {
		return nil, err
	}
	return &Run{Config: r.Session().Config, Data: r.Data, run: r}, nil
}

// Plan is the plan of a full batch; after a call that lost a device, the one for those that are
// left.
func (r *Run) Plan() *partition.Plan {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Session().Plan
}

// Memory says who has the memory of the run's devices now, and what the run has on the host. On shared [Devices] it is theirs,
// with all runs. Own devices are there from the first call that uses them, such as Train. It holds up no step.
func (r *Run) Memory() (Memory, error) {
	if err := r.checkOpen(); err != nil {
		return Memory{}, err
	}
	return r.run.Memory(), nil
}

// Tenant is the run's name in the [Memory] of shared [Devices]; "" on its own.
func (r *Run) Tenant() string {
	if r.checkOpened() != nil {
		return ""
	}
	return r.run.Session().Tenant()
}

// Train trains until the config's epochs or steps, MaxSteps or early stopping, and
// returns the report. When ctx is cancelled it finishes the step, saves and
// returns ErrStopped along with a report; before the first step, without one. On shared
// [Devices] that lack the memory for all of them, trainings and evaluations take turns between steps; while it waits for its own,
// ctx, SaveNow and MaxTime have their usual effect.
// An observer's panic goes on once everything is closed; nothing more is saved.
func (r *Run) Train(ctx context.Context, o TrainOptions) (*Report, error) {
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	return r.run.Train(ctx, o)
}

// Start opens a training whose steps the program takes: it copies the weights in, and takes no
// step. On shared [Devices] it waits until the least memory that it needs (the plan's floor) is
// free, beside any one of the runs that take turns. Open trainings may hold that until they are closed; the end
// of ctx ends the waiting. A device that is lost ends the training, whatever devices.on_device_loss says. The caller
// closes it; until then every other call of the run fails with ErrInUse.
func (r *Run) Start(ctx context.Context, o TrainOptions) (*Training, error) {
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	t, err := r.run.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Training{t}, nil
}

// Suspend has the run's call under way (Train, a [Training], Eval, Predict or Generate) stand still
// between two steps, or two batches of an evaluation, and returns once it does: at once where there is no
// call, or the run is suspended already. Calls that begin later stand still, too. Meanwhile the run computes
// nothing and keeps no memory from other runs on shared [Devices]: its tensors leave the devices only where
// those need the room. The weights at the end are those of a run without a suspension.
//
// While a call stands still, its context, SaveNow and MaxTime, which counts on, have their usual effect, and
// so have the methods of a Training that compute nothing.
//
// Where ctx ends before the run stands still, the error is its cause, and the run still will, unless Continue
// is called. An observer's function may ask for that with a context that has ended: a call that waits
// would wait for itself.
func (r *Run) Suspend(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	if r.run.Crew() != nil {
		return fmt.Errorf("%w: several processes train together, and are not suspended: cancel the context of Train on one of them, which saves", ErrOptions)
	}
	return r.run.Gate().Suspend(ctx)
}

// Continue undoes Suspend, and does not wait. The run goes on once its memory (the floor of the plan) is
// free, as when it began, and copies in what has left: a Training with its next step.
func (r *Run) Continue() error {
	if err := r.checkOpen(); err != nil {
		return err
	}
	r.run.Gate().Continue()
	return nil
}

// What TraceStep gives: a step as it ran, and as the plan predicts it. See [trace.StepTrace].
type (
	StepTrace    = trace.StepTrace
	StepTimeline = trace.StepTimeline
	StepLane     = trace.StepLane
	StepSpan     = trace.StepSpan
)

// TraceStep asks the training under way, by Train or Start, for the trace of the next step that it begins, and waits
// until that has ended. It may be called from any goroutine but that of the training, whose steps nothing traces before.
// Where ctx ends first, the error is its cause. A second call meanwhile fails with ErrInUse, and one without a training
// with ErrNoStep.
func (r *Run) TraceStep(ctx context.Context) (*StepTrace, error) {
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	return r.run.TraceStep(ctx)
}

// Eval computes loss and metrics over the validation part, or over the
// training part where there is no other, with a checkpoint of this run's model
// and data, or a file of weights.
func (r *Run) Eval(ctx context.Context, w Weights) (Evaluation, error) {
	if err := r.check(ctx); err != nil {
		return Evaluation{}, err
	}
	return r.used().Eval(ctx, w)
}

// EvalTest is Eval over the test part, which Train has evaluated once at its end: see
// [Report].Test.
func (r *Run) EvalTest(ctx context.Context, w Weights) (Evaluation, error) {
	if err := r.check(ctx); err != nil {
		return Evaluation{}, err
	}
	return r.used().EvalTest(ctx, w)
}

// Predict is [Trained.Predict] with a checkpoint of this run's model and data,
// or a file of weights.
func (r *Run) Predict(ctx context.Context, w Weights, path string, emit func(Prediction) error) (Used, error) {
	if err := cmp.Or(r.check(ctx), checkEmit(emit == nil)); err != nil {
		return Used{}, err
	}
	return r.used().Predict(ctx, w, path, emit)
}

// Generate is [Trained.Generate] with a checkpoint of this run's model, or a file of
// weights.
func (r *Run) Generate(ctx context.Context, w Weights, o GenerateOptions, emit func(Piece) error) (Generation, error) {
	if err := cmp.Or(r.check(ctx), checkEmit(emit == nil)); err != nil {
		return Generation{}, err
	}
	return r.used().Generate(ctx, w, o, emit)
}

// used answers with weights that the run was trained to.
func (r *Run) used() trained.OfRun { return trained.OfRun{Session: r.run.Session(), Data: r.Data} }

// Notes say how the run is other than its user may expect: a batch larger than
// the data, fewer stages than asked for, or less memory than a step would take.
func (r *Run) Notes() []string {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Session().Notes()
}

// Reads are the files and folders that the run is planned from, so that nothing is written over
// them.
func (r *Run) Reads() []string {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Session().Inputs("")
}

// Close closes the devices, and gives data that runs on shared [Devices] have in common back. It fails if
// anything on the devices was not freed, and with ErrInUse within a call of another method. A nil or closed
// Run has none.
func (r *Run) Close() error {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Close()
}

// Bucket is the samples of a run that are padded to one length.
type Bucket = train.Bucket

// Buckets are those of samples with different lengths, from the shortest; nil if all have
// one shape. The run's Plan is that of the largest with samples, which takes the most memory.
func (r *Run) Buckets() []Bucket {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Buckets()
}

// HostBytes is the most host memory that a training takes, in bytes: batches, a save, and tensors that are
// on no device. Data.Bytes are those of its data, which runs on shared devices may have in common.
func (r *Run) HostBytes() int64 {
	if r.checkOpened() != nil {
		return 0
	}
	return r.run.Session().HostBytes()
}

// StateBytes is the size in bytes of a checkpoint's tensors: weights, the optimizer's state and others.
func (r *Run) StateBytes() int64 {
	if r.checkOpened() != nil {
		return 0
	}
	return r.run.Session().StateBytes()
}

// TimeSteps times, on the run's devices, what steps of the plan consist of, unless that takes long: see
// [session.Session.TimeSteps]. StepTime and the plans of Buckets count with these times from then on. Call it before
// training. Times are kept: see OpenOptions.Costs.
func (r *Run) TimeSteps(ctx context.Context) (StepTiming, error) {
	if err := r.check(ctx); err != nil {
		return StepTiming{}, err
	}
	return r.run.TimeSteps(ctx)
}

// StepTime predicts the time of a full step: see [partition.Plan.Predict].
func (r *Run) StepTime(ctx context.Context) (*partition.Prediction, error) {
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	return r.run.Session().Plan.Predict(stop.Of(ctx))
}

// StepsLike says how long steps took in runs like this on this machine, by a measured prediction of StepTime; "" where there
// were too few.
func (r *Run) StepsLike(p *partition.Prediction) string {
	if r.checkOpened() != nil || p == nil {
		return ""
	}
	return r.run.Session().Within(p)
}

// Schedule is the order of a full step's microbatches.
func (r *Run) Schedule() (schedule.Schedule, error) {
	if err := r.checkOpen(); err != nil {
		return schedule.Schedule{}, err
	}
	return r.run.Session().Schedule()
}

// StepsPerEpoch is the number of steps of one pass over the training part.
func (r *Run) StepsPerEpoch() int {
	if r.checkOpened() != nil {
		return 0
	}
	return r.run.Session().Sizes.Steps
}

// TotalSteps is the number of steps of the whole run.
func (r *Run) TotalSteps() int {
	if r.checkOpened() != nil {
		return 0
	}
	return r.run.Session().Sizes.Total
}

// Fingerprints tell whether two runs are the same, as each checkpoint keeps them: "config", "data", "numerics" (the kinds of
// the devices with their instructions; of several kinds, also the blocks of each) and others.
func (r *Run) Fingerprints() (map[string]string, error) {
	if err := r.checkOpen(); err != nil {
		return nil, err
	}
	l, err := r.run.Session().RunLineage()
	if err != nil {
		return nil, err
	}
	return l.Fingerprints()
}

// RMSE is the root of a mean squared error: how far off predictions are, in
// the unit of the numbers that are predicted. It is nil where the loss is
// another, or each of several numbers was scaled to its own unit.
func (r *Run) RMSE(loss *float64) *float64 {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Session().RMSE(loss)
}

// Comparison is a candidate for a run.
type Comparison = planning.Comparison

// Compare plans for the numbers of stages and replicas that the devices have room for
// and each schedule, and with half, twice and four times the microbatches if a step
// then has at most 32 of them.
func (r *Run) Compare(ctx context.Context) ([]Comparison, error) {
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	return r.run.Compare(ctx)
}

// SegmentClusters is how a segment is compiled.
type SegmentClusters = session.SegmentClusters

// RefusedOp is an op that a device of the run cannot compute, and so no cluster there has.
type RefusedOp = session.RefusedOp

// Clusters are the clusters of each segment of a full microbatch. They ask the devices, so a
// closed run has none: ErrClosed.
func (r *Run) Clusters() ([]SegmentClusters, error) {
	if err := r.checkOpen(); err != nil {
		return nil, err
	}
	return r.run.Session().Clusters(), nil
}

// Executables counts the executables (compiled segments; op by op, compiled ops) that a
// run asks its devices for, by where they come from.
type Executables = session.Executables

// Executables foretells the executables of training, with the evaluations at boundaries and at the end.
// Nothing is compiled.
func (r *Run) Executables(ctx context.Context) (Executables, error) {
	if err := r.check(ctx); err != nil {
		return Executables{}, err
	}
	return r.run.Executables(ctx)
}
