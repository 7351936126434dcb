package berth

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"

	_ "github.com/berth-ml/berth/engine/device/cpu"  // registers itself
	_ "github.com/berth-ml/berth/engine/device/null" // registers itself
)

// Run is a config made concrete: data, model, devices and plan. One goroutine
// uses it at a time.
type Run struct {
	Config *configs.Config
	Data   *datasets.Dataset
	Plan   *partition.Plan // of a full batch

	spec  models.Spec
	optim optim.Spec
	sizes sizes
	devs  []device.Device
	tail  *partition.Plan // of an epoch's smaller last batch; nil if there is none
	trace tracer
	debug int // level

	Skipped []checkpoint.Skipped // what OpenTrained, Eval or Predict passed over to find a whole checkpoint

	// Of a run opened with OpenTrained.
	like  *datasets.Info // of what was trained on
	asked Weights        // for which the checkpoint found was opened
	found uint64
}

// sizes is how an epoch is cut into steps.
type sizes struct {
	samples      int // of the training part
	batch        int // of a full step
	microbatch   int
	microbatches int
	steps        int // in an epoch
	last         int // samples in the last step
	total        int // steps in the whole run
}

func newSizes(c *configs.Config, samples int) sizes {
	z := sizes{samples: samples, batch: c.Train.Batch, microbatches: c.Train.Microbatches}
	z.microbatch = z.batch / z.microbatches
	z.steps = (samples + z.batch - 1) / z.batch
	z.last = samples - (z.steps-1)*z.batch
	z.total = z.steps * c.Train.Epochs
	return z
}

// oneStep says that a batch larger than the training part makes each epoch one
// step; "" where it is not.
func (z sizes) oneStep() string {
	if z.batch <= z.samples {
		return ""
	}
	return fmt.Sprintf("train.batch, %d, is more than the %d samples there are to train on: an epoch is one step", z.batch, z.samples)
}

// tailMicrobatch is the size of the last microbatch of the last step.
func (z sizes) tailMicrobatch() int {
	if r := z.last % z.microbatch; r > 0 {
		return r
	}
	return z.microbatch
}

// of is the samples of step i of an epoch, from 0.
func (z sizes) of(i int) int {
	if i == z.steps-1 {
		return z.last
	}
	return z.batch
}

// Open checks the config, reads the data, opens the devices and plans. It
// copies nothing to a device. Where ctx ends meanwhile, the error is its cause.
// The caller closes the run.
func Open(ctx context.Context, c *configs.Config) (*Run, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is no config", ErrOptions)
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	data, err := datasets.Open(ctx, datasetSpec(c))
	if err != nil {
		return nil, badData(ctx, c, err)
	}
	r := &Run{Config: c, Data: data, spec: modelSpec(c, &data.Info)}
	r.sizes = newSizes(c, data.Train.Len())
	r.optim = optimSpec(c, r.sizes.total)
	return r.opened(func() error { return r.plan(ctx) })
}

// opened opens the devices, and plans with them.
func (r *Run) opened(plan func() error) (*Run, error) {
	var err error
	if r.debug, err = debugLevel(); err != nil {
		return nil, err
	}
	if r.devs, err = r.openDevices(); err != nil {
		return nil, at(r.Config.Devices.Pos, fmt.Errorf("devices: %w", err))
	}
	if err := plan(); err != nil {
		return nil, errors.Join(r.placed(err), r.Close())
	}
	return r, nil
}

// placed says where in the config a mistake is that only planning found, and
// whose message does not say so.
func (r *Run) placed(err error) error {
	c := r.Config
	switch {
	case errors.Is(err, optim.ErrSpec):
		return at(c.Optimizer.Pos, err)
	case errors.Is(err, partition.ErrStages):
		return at(c.Where("partition.stages"), fmt.Errorf("partition: %w", err))
	}
	return err
}

// at puts the place of a mistake, where it has one, before what it is.
func at(p configs.Pos, err error) error {
	if p == (configs.Pos{}) {
		return err
	}
	return fmt.Errorf("%s: %w", p, err)
}

// badData places an error about the data at the key that it is about. Data that
// was not read to its end, since ctx ended, may well be good.
func badData(ctx context.Context, c *configs.Config, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("reading the data: %w", context.Cause(ctx))
	}
	return at(c.Where("data."+datasets.Blame(err)), fmt.Errorf("%w: %w", ErrData, err))
}

// Close closes the devices. It fails if anything on them was not freed.
func (r *Run) Close() error {
	var errs []error
	for _, d := range r.devs {
		errs = append(errs, d.Close())
	}
	r.devs = nil
	return errors.Join(errs...)
}

// openDevices opens what a config's devices.use names.
func (r *Run) openDevices() ([]device.Device, error) {
	c := r.Config.Devices
	kinds, err := deviceKinds(c.Use)
	if err != nil {
		return nil, err
	}
	var devs []device.Device
	for _, k := range kinds {
		more, err := device.Open(k.name, device.OpenOptions{
			Count: k.count, Threads: c.Threads, MemoryBytes: c.Memory, Sync: r.debug >= debugSync, OnSpan: r.trace.add,
		})
		if err != nil {
			for _, d := range devs {
				err = errors.Join(err, d.Close())
			}
			return nil, err
		}
		devs = append(devs, more...)
	}
	return devs, nil
}

// deviceKind is how many devices of a kind there are to be.
type deviceKind struct {
	name  string
	count int
}

// deviceKinds reads "cpu:2,null:1". A kind given twice is refused: its devices
// are numbered from 0, and share its memory, each time they are opened.
func deviceKinds(use string) ([]deviceKind, error) {
	var kinds []deviceKind
	for _, item := range strings.Split(use, ",") {
		name, count, given := strings.Cut(item, ":")
		n := 1
		if given {
			var err error
			if n, err = strconv.Atoi(count); err != nil {
				return nil, fmt.Errorf("%q: %w", item, err)
			}
		}
		for _, k := range kinds {
			if k.name == name {
				return nil, fmt.Errorf("%w: %s names %s more than once: write %s:%d for so many of them", ErrOptions, use, name, name, k.count+n)
			}
		}
		kinds = append(kinds, deviceKind{name, n})
	}
	return kinds, nil
}

// plan builds the graphs of a step and cuts them.
func (r *Run) plan(ctx context.Context) error {
	z := r.sizes
	if err := r.warmsUp(); err != nil {
		return err
	}
	size := models.Size{Microbatch: z.microbatch, Microbatches: z.microbatches, Batch: z.batch, Ring: z.steps, Room: partition.Room(deviceSpecs(r.devs))}
	full, err := models.Train(r.spec, r.optim, size)
	var large *models.TooLargeError
	if errors.As(err, &large) {
		return partition.TooLarge(large.Parameters, large.Room, large.Largest, large.Bytes)
	}
	if err != nil {
		return err
	}
	o := r.planOptions()
	o.Stop = stopOf(ctx)
	r.Plan, err = partition.New(full, o)
	if err != nil || z.last == z.batch {
		return err
	}
	size.Microbatch, size.Batch = z.tailMicrobatch(), z.last
	last, err := models.Train(r.spec, r.optim, size)
	if err = errors.Join(err, o.Stop()); err != nil {
		return err
	}
	r.tail, err = r.Plan.Rebind(last)
	return err
}

// warmsUp refuses a learning rate that warms up for longer than the run takes.
func (r *Run) warmsUp() error {
	_, err := r.optim.Schedule.Infer([]shape.Meta{shape.I32()})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w; lower schedule.warmup, or train for more steps", ErrOptions, err)
	if text := r.sizes.oneStep(); text != "" {
		err = fmt.Errorf("%w; %s", err, text)
	}
	return at(r.Config.Where("schedule.warmup"), err)
}

// stopOf ends what asks it once ctx has ended.
func stopOf(ctx context.Context) func() error {
	return func() error { return context.Cause(ctx) }
}

func (r *Run) planOptions() partition.PlanOptions {
	p := r.Config.Partition
	return partition.PlanOptions{
		Devices: deviceSpecs(r.devs), Stages: p.Stages.Blocks, Count: p.Stages.Count,
		Microbatches: r.sizes.microbatches, Recompute: partition.Recompute(p.Recompute),
		InFlight: func(stages, stage int) int {
			s, err := schedule.New(p.Schedule, stages, r.sizes.microbatches)
			if err != nil {
				panic(fmt.Sprintf("BUG: a loaded config has %v", err))
			}
			return s.InFlight(stage)
		},
	}
}

// sameCut cuts another graph of the model as the training plan is cut. Blocks
// that the graph has no nodes of, such as dropout outside training, are left
// out.
func (r *Run) sameCut(ctx context.Context, g *graph.Graph) (*partition.Plan, error) {
	blocks := map[string]bool{}
	for _, n := range g.Nodes {
		if n.Layer != nil {
			blocks[n.Layer.Block] = true
		}
	}
	o := partition.PlanOptions{
		Devices: deviceSpecs(r.devs), Microbatches: 1,
		InFlight: func(int, int) int { return 1 }, Stop: stopOf(ctx),
	}
	for _, s := range r.Plan.Stages {
		var there []string
		for _, b := range s.Blocks {
			if blocks[b] {
				there = append(there, b)
			}
		}
		if len(there) > 0 {
			o.Stages = append(o.Stages, there)
		}
	}
	return partition.New(g, o)
}

func deviceSpecs(devs []device.Device) []device.Spec {
	specs := make([]device.Spec, len(devs))
	for i, d := range devs {
		specs[i] = d.Spec()
	}
	return specs
}

// Schedule is the order of a full step's microbatches.
func (r *Run) Schedule() (schedule.Schedule, error) {
	return schedule.New(r.Config.Partition.Schedule, len(r.Plan.Stages), r.sizes.microbatches)
}

// StepsPerEpoch is how many steps one pass over the training part takes.
func (r *Run) StepsPerEpoch() int { return r.sizes.steps }

// TotalSteps is how many steps the whole run takes.
func (r *Run) TotalSteps() int { return r.sizes.total }

// lastMicrobatches is how many microbatches an epoch's last step has.
func (z sizes) lastMicrobatches() int { return (z.last + z.microbatch - 1) / z.microbatch }
