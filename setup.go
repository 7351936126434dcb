package berth

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync/atomic"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"

	_ "github.com/berth-ml/berth/engine/device/cpu"    // registers itself
	_ "github.com/berth-ml/berth/engine/device/gpu/cl" // registers itself
	_ "github.com/berth-ml/berth/engine/device/null"   // registers itself
)

// setup is a model on devices. Training it and using it afterwards have it in
// common.
type setup struct {
	config    *configs.Config
	info      *datasets.Info // of the data that the model is trained on
	spec      models.Spec
	sizes     sizes
	devs      []device.Device // nil once it is closed
	at        []int           // of each device, its index in the config: lost ones are not among devs
	plan      *partition.Plan // the cut that every graph of the model has
	groups    groups          // of devices with the plan
	trains    bool            // the plan is a training's
	dataNotes []string        // of a training's data
	judge     *answer.Judge   // of a training's validation part
	spans     trace.Spans
	copies    trace.Copies
	debug     trace.Debug  // as BERTH_DEBUG asks
	calls     *trace.Calls // nil unless devices.op_by_op has log
	limits    []string     // the devices' limits that percentages became
	batches   int64        // bytes on the host of a training's batches; checkHostMemory sets it
	shared    *share       // of the devices that it is on; nil if they are its own
	user      user
	kept      atomic.Bool // a Training or a Service has the devices
	costs     measured
	lost      bool    // some of the devices were
	elsewhere bool    // the config is of a run on other devices
	refit     bool    // the plan is not the one that the config asks for, which does not fit
	picked    *picked // nil unless partition: auto has chosen without limits

	// unlimited plans as if the devices had no limits.
	unlimited bool
}

// picked is a plan that partition: auto chose without limits on memory. A percentage
// is of that plan's peaks, so the plan within the limits is cut alike.
type picked struct {
	stages, replicas int
	schedule         string
}

// open opens the devices, and plans with them. Unless that succeeds, the devices
// are closed. Where the config limits memory by a percentage, a plan without
// limits comes first, and the config gets the bytes.
func (s *setup) open(plan func() error) (err error) {
	level, err := trace.LevelAsked()
	if err != nil {
		return err
	}
	s.debug = trace.Debug{Level: level, Out: os.Stderr}
	s.user.tell = listener{span: s.onSpan, kernel: s.spans.Kernel, kernels: s.spans.Collecting}
	if s.unlimited = byPercentage(s.config.Devices); s.unlimited {
		if err := s.openOnce(plan); err != nil {
			return err
		}
		err := s.limit()
		if err = errors.Join(err, s.close()); err != nil {
			return err
		}
		s.unlimited = false
		return s.openWithin(plan)
	}
	return s.openOnce(plan)
}

// openWithin opens the devices within the limits that percentages became. A config's
// percentage is meant for training: where evaluation and prediction need more at once,
// they get that.
func (s *setup) openWithin(plan func() error) error {
	for {
		err := s.openOnce(plan)
		small, ok := errors.AsType[*partition.MemoryError](err)
		if !ok || s.trains {
			return err
		}
		c := *s.config
		c.Devices = raised(c.Devices, small.Device, small.Floor)
		s.config, s.limits = &c, append(s.limits, fmt.Sprintf("%s may use %s instead: %s needs that at once", small.ID, units.Bytes(small.Floor), small.FloorOf))
	}
}

// limit puts bytes into the config in place of percentages of the plan's peaks.
func (s *setup) limit() error {
	peaks := make([]int64, len(s.devs))
	for i := range s.plan.Memory {
		f := &s.plan.Memory[i]
		peaks[f.Device] = f.Peak
	}
	c := *s.config
	var err error
	c.Devices, s.limits, err = limited(c.Devices, deviceSpecs(s.devs), peaks)
	if len(s.config.Devices.Each) == 0 {
		for i := range c.Devices.Each { // which one limit became
			c.Devices.Each[i].Pos = c.Where("devices.memory")
		}
	}
	s.config = &c
	return err
}

// openOnce opens the devices, and plans with them.
func (s *setup) openOnce(plan func() error) (err error) {
	if s.config.Devices.Runs(configs.OpByOpLog) {
		s.calls = trace.NewCalls(os.Stderr)
	}
	if err = s.openDevices(); err != nil {
		return s.refused(err)
	}
	planned := false // nor where plan panics
	defer func() {
		if !planned {
			err = errors.Join(err, s.close())
		}
	}()
	if err := plan(); err != nil {
		return s.placed(err)
	}
	planned = true
	return nil
}

// openDevices opens the config's devices, unless the run shares devices.
func (s *setup) openDevices() (err error) {
	if s.shared != nil {
		if s.devs, s.at = s.shared.left(); len(s.devs) == 0 {
			return fmt.Errorf("%w: all of the shared devices are: open devices anew", device.ErrLost)
		}
		s.lost, s.elsewhere = len(s.devs) < len(s.shared.use), s.isElsewhere()
		return s.shared.enlist(&s.user, s.config.Name)
	}
	s.devs, err = openDevices(s.config.Devices, s.user.tell)
	s.elsewhere = s.isElsewhere()
	s.at = make([]int, len(s.devs))
	for i := range s.at {
		s.at[i] = i
	}
	return err
}

// without takes a device out of the plans to come.
func (s *setup) without(i int) {
	s.lost, s.limits = true, nil // they have been said
	s.devs, s.at = slices.Delete(slices.Clone(s.devs), i, i+1), slices.Delete(slices.Clone(s.at), i, i+1)
}

// onSpan takes an operation of a device.
func (s *setup) onSpan(x device.Span) {
	s.spans.Add(x)
	s.copies.Add(x)
	s.calls.Add(x)
}

// onLaunch takes a task that is queued.
func (s *setup) onLaunch(x executor.Launched) {
	s.spans.Launched(x)
	s.calls.Launched(x)
}

// opByOp reports whether each op runs by itself.
func (s *setup) opByOp() bool { return runsOpByOp(s.config.Devices) }

// beside reports whether segments are compiled while steps run op by op.
func (s *setup) beside() bool {
	return s.config.Devices.Compile == configs.CompileBeside && !s.opByOp()
}

// refused adds its place in the config to an error of opening the devices.
func (s *setup) refused(err error) error {
	key := "devices.memory"
	if len(s.config.Devices.Each) > 0 {
		key = "devices.each"
	}
	if errors.Is(err, ErrClosed) || errors.Is(err, device.ErrLost) { // shared devices, which their owner closed, or that are lost
		return err
	}
	d := s.config.Devices
	if errors.Is(err, device.ErrBudget) && len(d.Each) == 0 && d.Memory == (configs.Memory{}) {
		return err // no place of the config is wrong
	}
	if errors.Is(err, device.ErrBudget) {
		return at(s.config.Where(key), fmt.Errorf("%s: %w", key, err))
	}
	where := d.Pos
	if s.config.Given("devices.use") { // maybe by a flag, and the rest by the file
		where = s.config.Where("devices.use")
	}
	return at(where, fmt.Errorf("devices: %w", err))
}

// close closes the devices, unless a call uses them. It fails if anything on
// them was not freed.
func (s *setup) close() error {
	if s.user.busy() {
		return ErrInUse
	}
	return s.closeDevices()
}

// closeDevices closes the devices that are the run's own.
func (s *setup) closeDevices() (err error) {
	if s.shared == nil {
		err = closeAll(s.devs)
	} else {
		s.shared.dismiss(&s.user)
	}
	s.devs = nil
	s.calls.Close()
	return err
}

// usable refuses a closed run, and devices that give no results back.
func (s *setup) usable() error {
	if len(s.devs) == 0 || s.shared.isClosed() {
		return ErrClosed
	}
	for _, d := range s.plan.Devices() {
		if spec := s.devs[d].Spec(); !spec.CopyOut {
			return fmt.Errorf("%w: %s (%s) gives neither losses nor weights back: it is for planning and tests; train on another kind of device", ErrOptions, spec.ID, spec.Description)
		}
	}
	return nil
}

// placed adds its place in the config to a mistake that planning found.
func (s *setup) placed(err error) error {
	c := s.config
	if _, known := errors.AsType[*placedError](err); known {
		return err
	}
	pins, pinned := errors.AsType[*partition.PinError](err)
	switch {
	case pinned:
		return at(c.Where("partition.pin"), fmt.Errorf("partition.pin: %w", pins))
	case errors.Is(err, optim.ErrSpec):
		return at(c.Where("optimizer.freeze"), err) // the config knows its other keys
	case errors.Is(err, schedule.ErrInvalid):
		key := "train.microbatches"
		if order, _ := c.Partition.Order(); order != nil {
			key = "partition.schedule"
		}
		return at(c.Where(key), fmt.Errorf("%s: %w", key, err))
	case errors.Is(err, partition.ErrReplicas):
		return at(c.Where("partition.replicas"), fmt.Errorf("partition.replicas: %w", err))
	case errors.Is(err, partition.ErrStages):
		return at(c.Where("partition.stages"), fmt.Errorf("partition: %w", err))
	case errors.Is(err, partition.ErrMemory):
		dev := 0
		if e, ok := errors.AsType[*partition.MemoryError](err); ok {
			dev = e.Device
		}
		return fmt.Errorf("%w (%s)", err, memoryFrom(c, s.at[dev]))
	}
	return err
}

// options cut the model as the config asks.
func (s *setup) options(ctx context.Context) (partition.PlanOptions, error) {
	p, specs := s.config.Partition, s.specs()
	order, err := s.order()
	if err != nil {
		return partition.PlanOptions{}, at(s.config.Where("partition.schedule"), fmt.Errorf("%w: partition.schedule: %w", ErrOptions, err))
	}
	if own, _ := p.Order(); own != nil && order == nil {
		p.Schedule = "" // it is for other devices
	}
	if order != nil && order.Microbatches == s.config.Train.Microbatches { // a step has fewer where there are few samples
		*order = order.Without(s.sizes.microbatches)
	}
	return partition.PlanOptions{
		Devices: specs, Stages: p.Stages.Blocks, Count: p.Stages.Count,
		Microbatches: s.sizes.microbatches, LastMicrobatches: s.sizes.lastMicrobatches(), Reduction: partition.Reduction(s.config.Train.Reduction), Replicas: s.replicas(), Shard: partition.Shard(p.Shard), Recompute: partition.Recompute(p.Recompute),
		Schedule: p.Schedule, Order: order, Estimate: s.estimate, Stop: stopOf(ctx),
		OpByOp:      s.opByOp(),
		Seconds:     func(d int, g *graph.Graph) (float64, bool) { return s.costs.seconds(specs, d, g, s.opByOp()) },
		HostSeconds: func(d int, bytes int64, out bool) (float64, bool) { return s.costs.hostSeconds(specs, d, bytes, out) },
		CallSeconds: func(d int) (float64, bool) { return s.costs.callSeconds(specs, d) },
		CopySeconds: func(from, to int, bytes int64) (float64, bool) { return s.costs.copySeconds(specs, from, to, bytes) },
		Supports:    func(d int, n *graph.Node) error { return s.devs[d].Supports(n) },
	}, nil
}

// specs describes the devices to plan with.
func (s *setup) specs() []device.Spec {
	specs := deviceSpecs(s.devs)
	if s.shared != nil {
		s.shared.limit(specs, s.at, s.config.Devices)
	}
	for i := range specs {
		if s.unlimited {
			specs[i].MemoryBytes = 0
		}
	}
	return specs
}

// estimate asks a device for the memory of a run. Op by op, nothing is fused; what runs
// both ways needs the larger memory of the two.
func (s *setup) estimate(d int, g *graph.Graph, o device.CompileOptions) (m device.Memory, err error) {
	if !s.opByOp() {
		if m, err = s.devs[d].Estimate(g, o); err != nil || !s.beside() {
			return m, err
		}
	}
	o.CheckFinite = true
	ops, err := s.devs[d].Estimate(g, o)
	ops.Temporary = max(ops.Temporary, m.Temporary)
	return ops, err
}

// idle is a note on devices that the plan does not use; "" if there are none, or if
// the note on fewer stages says so.
func (s *setup) idle() string {
	n, r := len(s.devs), s.plan.Replicas()
	var unused []device.Device
	for i, d := range s.devs {
		if !slices.Contains(s.plan.Devices(), i) {
			unused = append(unused, d)
		}
	}
	f := s.plan.Fewer
	switch {
	case len(unused) == 0, f != nil && f.Devices && r == 1:
		return ""
	case n%r != 0 && len(unused) == n%r:
		return fmt.Sprintf("%s for %s: %s idle", units.Count(n, "device"), units.Count(r, "replica"), idsOf(unused))
	}
	by := "the plan"
	if s.config.Partition.Plan == configs.PlanAuto {
		by = "partition: auto"
	}
	return fmt.Sprintf("%s uses %d of %s: %s idle", by, n-len(unused), units.Count(n, "device"), idsOf(unused))
}

// model is the model and its cut, for using its weights.
func (s *setup) model() infer.Model {
	m := infer.Model{Spec: s.spec, Plan: s.plan, Microbatch: s.sizes.microbatch, Groups: s.groupDevices(), Devices: s.specs(), OpByOp: s.opByOp(), Beside: s.beside()}
	if !s.anyTight() {
		m.Room = s.roomFor
	}
	return m
}

// rmse is the root of a mean squared error in the unit of the numbers that are
// predicted. It is nil where the loss is another, or each of several numbers
// was scaled to its own unit.
func (s *setup) rmse(loss *float64) *float64 {
	if loss == nil || s.spec.Loss != "mse" {
		return nil
	}
	v := math.Sqrt(*loss)
	if x := s.info.TargetScaling; x != nil {
		if len(x.Std) > 1 {
			return nil
		}
		v *= x.Std[0]
	}
	return &v
}

// anyTight reports whether a device may use less memory than the plan takes.
func (s *setup) anyTight() bool {
	return slices.ContainsFunc(s.plan.Memory, func(f partition.Forecast) bool { return f.Tight() })
}
