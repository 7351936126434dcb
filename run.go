package berth

import (
	"cmp"
	"context"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/executor/train"
	"github.com/berth-ml/berth/executor/trained"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/planning"
)

// Run is a config made concrete for training: data, model, devices and plan.
// One goroutine uses it at a time.
type Run struct {
	Config *configs.Config // with bytes for the devices' memory
	Data   *datasets.Dataset
	Plan   *partition.Plan // of a full batch; after a call that lost a device, the one for those that are left

	run *train.Run
}

// OpenOptions are the options of Open. The zero value opens the config's own devices, for
// the config's own data and model.
type OpenOptions struct {
	// Devices are shared with other runs; nil: the run opens those of its config. Use are
	// those of them that the run may use; nil: all.
	Devices *Devices
	Use     []device.ID
	// Costs is the file of measured times of segments; "": the one that
	// costs.DefaultPath names. Measuring hears how far measuring is, from 0 to 1;
	// nil for nobody. Both matter with partition.costs: measured.
	Costs     string
	Measuring func(share float64)
	// Resume is the folder of a run that is to go on: its text is read with the
	// tokenizer that its newest checkpoint holds, whose file need not be there any
	// more. "": there is no such run.
	Resume string
	// Overfit is the steps to train on the first batch alone, again and again, in place
	// of the config's length: see [configs.Train]. 0: train on all data.
	Overfit int
	// Data are samples of the program's own, for a config with `data: given`.
	Data *custom.Set
	// Model is a model of the program's own, for a config with `model: {preset: given}`: a
	// models.Stack of layers, or a models.Func.
	Model models.Layer
	// Reading hears what is done to a text and how far, from 0 to 1; nil for
	// nobody.
	Reading func(doing string, share float64)
}

// Open checks the config, reads the data, opens the devices and plans. It
// copies nothing to a device. Where ctx ends meanwhile, the error is its cause.
// The caller closes the run.
//
// On shared [Devices], the config's section devices counts for little: see there.
func Open(ctx context.Context, c *configs.Config, o OpenOptions) (*Run, error) {
	c, shared, err := opening(ctx, c, o.Devices, o.Use, o.Model)
	if err != nil {
		return nil, err
	}
	if o.Model != nil {
		c.Model.Program = programName()
	}
	data, err := openFor(ctx, c, o)
	if err != nil {
		return nil, err
	}
	if data.Options != nil {
		c.Data.Columns = foundColumns(data.Options)
	}
	notes := data.Notes
	if o.Overfit > 0 {
		c, data = overfit(c, data, o.Overfit)
	}
	sizes := session.NewSizes(c, data.Train.Len())
	r, err := train.Open(ctx, data, optimSpec(c, sizes.Total), session.Options{
		Config: c, Info: &data.Info, Spec: modelSpec(c, &data.Info, o.Model), Sizes: sizes, Shared: shared,
		Notes: notes, Costs: o.Costs, Measuring: o.Measuring,
	})
	if err != nil {
		return nil, err
	}
	return &Run{Config: r.Session.Config, Data: data, Plan: r.Session.Plan, run: r}, nil
}

// Train trains until the config's epochs or steps, MaxSteps or early stopping, and
// returns the report. When ctx is cancelled it finishes the step, saves and
// returns ErrStopped along with a report; before the first step, without one.
// An observer's panic goes on once everything is closed; nothing more is saved.
func (r *Run) Train(ctx context.Context, o TrainOptions) (*Report, error) {
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	defer func() { r.Plan = r.run.Session.Plan }()
	return r.run.Train(ctx, o)
}

// Start opens a training whose steps the program takes: it copies the weights in, and takes no
// step. On shared [Devices] it waits until the memory for its floor is free, which trainings
// that are open may keep; the end of ctx ends the waiting. A device that is
// lost ends it, whatever devices.on_device_loss says. The caller closes it; until then
// every other call of the run fails with ErrInUse.
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

// Eval computes loss and metrics over the validation part, or over the
// training part where there is no other, with a checkpoint of this run's model
// and data, or a file of weights.
func (r *Run) Eval(ctx context.Context, w Weights) (Evaluation, error) {
	if err := r.check(ctx); err != nil {
		return Evaluation{}, err
	}
	t, err := r.trained(ctx, w)
	if err != nil {
		return Evaluation{}, err
	}
	return t.Eval(ctx)
}

// Predict is [Trained.Predict] with a checkpoint of this run's model and data,
// or a file of weights.
func (r *Run) Predict(ctx context.Context, w Weights, path string, emit func(Prediction) error) (Used, error) {
	if err := cmp.Or(r.check(ctx), checkEmit(emit == nil)); err != nil {
		return Used{}, err
	}
	t, err := r.trained(ctx, w)
	if err != nil {
		return Used{}, err
	}
	return t.Predict(ctx, path, emit)
}

// Generate is [Trained.Generate] with a checkpoint of this run's model, or a file of
// weights.
func (r *Run) Generate(ctx context.Context, w Weights, o GenerateOptions, emit func(Piece) error) (Generation, error) {
	if err := cmp.Or(r.check(ctx), checkEmit(emit == nil)); err != nil {
		return Generation{}, err
	}
	t, err := r.trained(ctx, w)
	if err != nil {
		return Generation{}, err
	}
	return t.Generate(ctx, o, emit)
}

// trained is the run's model with weights that it was trained to, on the run's data.
func (r *Run) trained(ctx context.Context, w Weights) (*trained.Model, error) {
	return trained.Of(ctx, r.run.Session, r.Data, w, sourceOf(r.Config, nil))
}

// Notes say how the run is other than its user may expect: a batch larger than
// the data, fewer stages than asked for, or less memory than a step would take.
func (r *Run) Notes() []string {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Session.Notes()
}

// Reads are the files and folders that the run is planned from, so that nothing is written over
// them.
func (r *Run) Reads() []string {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Session.Inputs("")
}

// Close closes the devices. It fails if anything on them was not freed, and with
// ErrInUse within a call of another method. A nil or closed Run has none.
func (r *Run) Close() error {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Session.Close()
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

// StepTime predicts the time of a full step: see [partition.Plan.Predict].
func (r *Run) StepTime(ctx context.Context) (*partition.Prediction, error) {
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	return r.Plan.Predict(stop.Of(ctx))
}

// Schedule is the order of a full step's microbatches.
func (r *Run) Schedule() (schedule.Schedule, error) {
	if err := r.checkOpen(); err != nil {
		return schedule.Schedule{}, err
	}
	return r.run.Session.Schedule()
}

// StepsPerEpoch is the number of steps of one pass over the training part.
func (r *Run) StepsPerEpoch() int {
	if r.checkOpened() != nil {
		return 0
	}
	return r.run.Session.Sizes.Steps
}

// TotalSteps is the number of steps of the whole run.
func (r *Run) TotalSteps() int {
	if r.checkOpened() != nil {
		return 0
	}
	return r.run.Session.Sizes.Total
}

// RMSE is the root of a mean squared error: how far off predictions are, in
// the unit of the numbers that are predicted. It is nil where the loss is
// another, or each of several numbers was scaled to its own unit.
func (r *Run) RMSE(loss *float64) *float64 {
	if r.checkOpened() != nil {
		return nil
	}
	return r.run.Session.RMSE(loss)
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
	return r.run.Session.Clusters(), nil
}

// Executables counts the executables (compiled segments; op by op, compiled ops) that a
// run asks its devices for, by where they come from.
type Executables = session.Executables

// Executables foretells the executables of training, with the evaluations at boundaries.
// Nothing is compiled.
func (r *Run) Executables(ctx context.Context) (Executables, error) {
	if err := r.check(ctx); err != nil {
		return Executables{}, err
	}
	return r.run.Executables(ctx)
}
