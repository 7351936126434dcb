package berth

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
)

// Run is a config made concrete for training: data, model, devices and plan.
// One goroutine uses it at a time.
type Run struct {
	Config *configs.Config // with bytes for the devices' memory
	Data   *datasets.Dataset
	Plan   *partition.Plan // of a full batch

	setup *setup
	optim optim.Spec
	tail  *partition.Plan // of an epoch's smaller last batch; nil if there is none

	buckets []*partition.Plan // see executor.LoadOptions
}

// Open checks the config, reads the data, opens the devices and plans. It
// copies nothing to a device. Where ctx ends meanwhile, the error is its cause.
// The caller closes the run.
//
// On shared [Devices], the config's section devices counts for little: see there.
func Open(ctx context.Context, c *configs.Config, o OpenOptions) (*Run, error) {
	c, err := sound(c)
	if err != nil {
		return nil, err
	}
	shared, err := o.Devices.share(o.Use)
	if err != nil {
		return nil, err
	}
	return open(ctx, c, shared, o)
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

// open is Open with a sound config, on shared devices or on devices of the run's own.
func open(ctx context.Context, c *configs.Config, shared *share, o OpenOptions) (*Run, error) {
	if err := checkOwnModel(c, o.Model); err != nil {
		return nil, err
	}
	if o.Model != nil {
		c.Model.Program = programName()
	}
	data, err := openFor(ctx, c, o)
	if err != nil {
		return nil, err
	}
	notes := data.Notes
	if o.Overfit > 0 {
		c, data = overfit(c, data, o.Overfit)
	}
	s := &setup{trains: true, config: shared.configFor(c), info: &data.Info, spec: modelSpec(c, &data.Info, o.Model), sizes: newSizes(c, data.Train.Len()), shared: shared, dataNotes: notes}
	s.costs.opt = timesOptions{o.Costs, o.Measuring}
	s.costs.watch = hangs(s.config.Devices)
	r := &Run{Config: c, Data: data, setup: s, optim: optimSpec(c, s.sizes.total)}
	err = s.open(func() error { return r.prepare(ctx) })
	if text := s.sizes.oneStep(); text != "" && errors.Is(err, partition.ErrMemory) {
		err = fmt.Errorf("%w; %s", err, text)
	}
	if err != nil {
		return nil, err
	}
	r.Config = s.config
	return r, nil
}

// sound is a config without mistakes, with the defaults of its devices.
func sound(c *configs.Config) (*configs.Config, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is no config", ErrOptions)
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := checkSpillDir(c.Devices, c.Where("devices.spill_dir")); err != nil {
		return nil, err
	}
	whole := *c
	whole.Devices = c.Devices.WithDefaults()
	return &whole, nil
}

// Notes say how the run is other than its user may expect: a batch larger than
// the data, fewer stages than asked for, or less memory than a step would take.
func (r *Run) Notes() []string { return r.setup.notes() }

// Reads are the files and folders that the run is planned from, so that nothing is written over
// them.
func (r *Run) Reads() []string { return inputsOf(r.Config, Weights{}) }

// prepare plans, and refuses a plan that the host has too little memory for.
func (r *Run) prepare(ctx context.Context) error {
	err := r.plan(ctx)
	if err == nil {
		r.setup.judge, err = r.setup.newJudge(ctx, r.Data.Val, atBoundaries(r.setup.config))
	}
	if err != nil {
		return err
	}
	return r.setup.checkHostMemory(r.Data)
}

// plan builds the graphs of a step and cuts them.
func (r *Run) plan(ctx context.Context) error {
	s, z := r.setup, r.setup.sizes
	if err := errors.Join(r.warmsUp(), z.checkPace(r.Config)); err != nil {
		return err
	}
	options, err := s.options(ctx)
	if err == nil {
		err = options.CheckSchedule()
	}
	if err != nil {
		return err
	}
	full, err := r.graph(ctx, z.microbatches)
	if err != nil {
		return err
	}
	if r.Plan, err = r.choosePlan(ctx, full); err == nil && !s.unlimited {
		r.keepPlan()
	}
	s.plan = r.Plan
	if err == nil && !s.unlimited {
		err = r.planBuckets(ctx)
	}
	if err != nil || z.last == z.batch || s.unlimited { // the peaks are those of full steps
		return err
	}
	size := r.size(ctx, z.microbatches)
	size.Microbatch, size.Batch = z.tailMicrobatch(), z.last
	last, err := models.Train(s.spec, r.optim, size)
	if err = errors.Join(err, stopOf(ctx)()); err != nil {
		return err
	}
	r.tail, err = r.Plan.Rebind(last, stopOf(ctx))
	return err
}

// planBuckets plans for samples of each bucket, of the cut of those of the largest, which
// take the most memory.
func (r *Run) planBuckets(ctx context.Context) error {
	s, sizes := r.setup, r.Data.Train.Buckets()
	if r.buckets = nil; len(sizes) < 2 {
		return nil
	}
	for i, positions := range sizes[:len(sizes)-1] {
		size := r.size(ctx, s.sizes.microbatches)
		size.Positions = positions
		g, err := models.Train(s.spec, r.optim, size)
		if err = errors.Join(err, stopOf(ctx)()); err != nil {
			return err
		}
		p, err := r.Plan.RebindBucket(g, i+1, stopOf(ctx))
		if err != nil {
			return err
		}
		r.buckets = append(r.buckets, p)
	}
	r.buckets = append(r.buckets, r.Plan)
	return nil
}

// Bucket is the samples of a run that are padded to one length.
type Bucket struct {
	Positions int
	Samples   int             // in the training part
	Steps     int             // of an epoch
	Plan      *partition.Plan // of a step; nil without samples: the bucket is not compiled
}

// Buckets are those of samples with different lengths, from the shortest; nil if all have
// one shape. The run's Plan is that of the largest with samples, which takes the most memory.
func (r *Run) Buckets() (list []Bucket) {
	plans := map[int]*partition.Plan{}
	for i, positions := range r.Data.Train.Buckets() {
		plans[positions] = r.Plan
		if r.buckets != nil {
			plans[positions] = r.buckets[i]
		}
	}
	samples := r.Data.Train.InBuckets()
	for i, positions := range r.setup.info.Buckets {
		n := samples[i]
		list = append(list, Bucket{positions, n, (n + r.setup.sizes.batch - 1) / r.setup.sizes.batch, plans[positions]})
	}
	return list
}

// size is that of a full step in so many microbatches.
func (r *Run) size(ctx context.Context, microbatches int) models.Size {
	z, positions := r.setup.sizes, 0
	if buckets := r.Data.Train.Buckets(); buckets != nil {
		positions = buckets[len(buckets)-1]
	}
	return models.Size{
		Positions: positions, Microbatch: z.batch / microbatches, Microbatches: microbatches, Batch: z.batch, Ring: z.pace.Longest(), Stop: stopOf(ctx), Room: r.setup.room(),
	}
}

// graph is the graph of a full step in so many microbatches.
func (r *Run) graph(ctx context.Context, microbatches int) (*graph.Graph, error) {
	g, err := models.Train(r.setup.spec, r.optim, r.size(ctx, microbatches))
	var large *models.TooLargeError
	if errors.As(err, &large) {
		return nil, partition.TooLarge(large.Parameters, large.Room, large.Largest, large.Bytes)
	}
	return g, err
}

// warmsUp refuses a learning rate that warms up for longer than the run takes.
func (r *Run) warmsUp() error {
	_, err := r.optim.Schedule.Infer([]shape.Meta{shape.I32()})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w; lower schedule.warmup, or train for more steps", ErrOptions, err)
	if text := r.setup.sizes.oneStep(); text != "" {
		err = fmt.Errorf("%w; %s", err, text)
	}
	return at(r.Config.Where("schedule.warmup"), err)
}

// Close closes the devices. It fails if anything on them was not freed, and with
// ErrInUse within a call of another method. A nil Run has none.
func (r *Run) Close() error {
	if r == nil {
		return nil
	}
	return r.setup.close()
}

// StepTime predicts the time of a full step: see [partition.Plan.Predict].
func (r *Run) StepTime(ctx context.Context) (*partition.Prediction, error) {
	return r.Plan.Predict(stopOf(ctx))
}

// Schedule is the order of a full step's microbatches.
func (r *Run) Schedule() (schedule.Schedule, error) {
	return r.Plan.ScheduleOf(r.setup.sizes.microbatches)
}

// StepsPerEpoch is the number of steps of one pass over the training part.
func (r *Run) StepsPerEpoch() int { return r.setup.sizes.steps }

// TotalSteps is the number of steps of the whole run.
func (r *Run) TotalSteps() int { return r.setup.sizes.total }

// RMSE is the root of a mean squared error: how far off predictions are, in
// the unit of the numbers that are predicted. It is nil where the loss is
// another, or each of several numbers was scaled to its own unit.
func (r *Run) RMSE(loss *float64) *float64 { return r.setup.rmse(loss) }

// Executables foretells the executables of training, with the evaluations at boundaries.
// Nothing is compiled.
func (r *Run) Executables(ctx context.Context) (Executables, error) {
	programs := []executor.LoadOptions{r.program(ctx)}
	if val := r.Data.Val; val != nil {
		list, err := infer.EvaluatorPrograms(ctx, r.setup.judge.Model(r.setup.model()), val)
		if err != nil {
			return Executables{}, err
		}
		programs = append(programs, list...)
	}
	return r.setup.executables(programs)
}

// program is the program of training, without constants.
func (r *Run) program(ctx context.Context) executor.LoadOptions {
	s := r.setup
	return executor.LoadOptions{
		Net: "train", Full: r.Plan, Buckets: r.buckets, Tail: r.tail, LastMicrobatches: s.sizes.lastMicrobatches(),
		OpByOp: s.opByOp(), CheckFinite: s.opByOp(), Beside: s.beside(), Stop: stopOf(ctx),
	}
}
