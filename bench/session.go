package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
	"github.com/berth-ml/berth/residency/ledger"
)

// batches is the number of different batches. A step's batch must not change
// until the step is over, and two steps can be under way.
const batches = 2

// patience is the longest that an operation may take once the measurement is to
// end.
const patience = 3 * time.Second

// session is a workload loaded on devices, ready to step. One goroutine at a
// time uses it.
type session struct {
	w       Workload
	parts   int // microbatches
	graph   *graph.Graph
	devs    []device.Device
	faulty  []device.Device      // devs, with RunOptions.Faults
	memory  []partition.Forecast // of each device
	full    *partition.Plan
	times   *costs.File // of segments and copies; nil until timeSegments
	opByOp  bool        // of RunOptions
	rt      *executor.Runtime
	prog    *executor.Program
	batch   [batches]executor.Batch
	fields  []device.HostBuffer // of all batches
	ends    stepEnds            // fed by the streams
	copies  trace.Copies        // likewise
	kernels kernelTimes         // fed by the streams, with RunOptions.Profile
	last    executor.Ticket     // the newest step; 0 before the first
	stepped int                 // steps so far
}

// open loads a workload and starts copying its weights in. The caller closes
// the session.
func open(ctx context.Context, w Workload, o RunOptions) (*session, error) {
	s := &session{w: w, parts: max(1, o.Microbatches), opByOp: o.OpByOp}
	if err := w.checkMicrobatches(s.parts); err != nil {
		return nil, err
	}
	if err := s.load(ctx, o); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// load opens the devices, plans the workload and fills its batches.
func (s *session) load(ctx context.Context, o RunOptions) (err error) {
	do := o.opens()
	do.OnSpan, do.OnKernel = s.onSpan, o.onKernel
	if o.Profile {
		do.OnKernel = s.kernels.add
	}
	if s.graph, err = s.w.Graph(s.parts, o.Precision == bf16Name); err != nil {
		return err
	}
	plan, err := s.plan(o, do)
	if err != nil {
		return err
	}
	s.full = plan
	if err := s.ends.follow(plan, s.devs, s.parts, o.OpByOp); err != nil {
		return err
	}
	if s.faulty, err = fault.Wrap(s.devs, o.Faults); err != nil {
		return err
	}
	if s.rt, err = executor.NewRuntime(s.faulty, s.runtime(o)); err != nil {
		return err
	}
	s.rt.Watch(executor.WatchOptions{Timeout: o.Timeout, Setting: "--timeout", Stop: ctx.Done(), Patience: func() time.Duration { return patience }})
	s.rt.EndWith(ctx)
	s.prog, err = s.rt.Load(executor.LoadOptions{Net: "bench", Full: plan, LastMicrobatches: s.parts, Constant: s.constant, OpByOp: o.OpByOp, CheckFinite: o.OpByOp})
	if err != nil {
		return err
	}
	if err := s.fillBatches(s.faulty[plan.Stages[0].Device]); err != nil {
		return err
	}
	return s.prog.Init(ctx, func(v *graph.Value, dst []byte) error {
		models.Fill(v, seed, dst)
		return nil
	})
}

// plan opens the devices, and plans with them. Where their limit is a percentage,
// a plan without limits comes first.
func (s *session) plan(o RunOptions, do device.OpenOptions) (*partition.Plan, error) {
	do.MemoryBytes = o.DeviceMemory.Bytes
	if o.DeviceMemory.Percent > 0 {
		p, err := s.planOnce(o, do, true)
		if err != nil {
			return nil, err
		}
		for _, f := range p.Memory {
			do.Each = append(do.Each, device.Share{MemoryBytes: o.DeviceMemory.Of(f.Peak)})
		}
		err = s.closeDevices()
		if err != nil {
			return nil, err
		}
	}
	p, err := s.planOnce(o, do, false)
	if errors.Is(err, partition.ErrMemory) && o.DeviceMemory != (configs.Memory{}) {
		err = fmt.Errorf("%w (now --device-memory %v)", err, o.DeviceMemory)
	}
	if err != nil {
		return nil, err
	}
	s.memory = p.Memory
	return p, nil
}

// planOnce opens the devices, and plans with them or as if they had no limits.
func (s *session) planOnce(o RunOptions, do device.OpenOptions, unlimited bool) (p *partition.Plan, err error) {
	if s.devs, err = openDevices(o.Devices, do); err != nil {
		return nil, err
	}
	po := partition.PlanOptions{
		Devices: specs(s.devs), Microbatches: s.parts, Count: o.Stages, Schedule: o.Schedule, Recompute: o.Recompute,
		Reduction: o.Reduction, Replicas: o.Replicas, Shard: o.Shard,
		Estimate: func(d int, g *graph.Graph, c device.CompileOptions) (device.Memory, error) {
			c.CheckFinite = o.OpByOp
			return s.devs[d].Estimate(g, c)
		},
		OpByOp: o.OpByOp, Seconds: s.seconds, CallSeconds: s.callSeconds, CopySeconds: s.copySeconds, HostSeconds: s.hostSeconds,
	}
	for i := range po.Devices {
		if unlimited {
			po.Devices[i].MemoryBytes = 0
		}
	}
	return partition.New(s.graph, po)
}

// runtime is the runtime's options: the devices of the plan, and the bound on host
// memory that was asked for.
func (s *session) runtime(o RunOptions) (r executor.RuntimeOptions) {
	r.Used = s.full.Devices()
	if o.HostMemory == 0 {
		return r
	}
	var state, step int64
	for _, v := range s.graph.Vars {
		state += v.Meta.Bytes()
	}
	for i := range s.memory {
		if f := &s.memory[i]; f.Tight() {
			step += f.Peak
		}
	}
	r.Manager.HostBytes, r.Manager.SpillDir = o.HostMemory, cmp.Or(o.SpillDir, os.TempDir())
	r.Tenant.HostBytes = max(state, step)
	for _, v := range s.graph.Values {
		r.Tenant.LargestBytes = max(r.Tenant.LargestBytes, v.Meta.Bytes())
	}
	return r
}

// onSpan takes an operation of a stream.
func (s *session) onSpan(x device.Span) {
	s.ends.add(x)
	s.copies.Add(x)
}

// constant gives the contents of a per-microbatch constant. There is one such
// constant, the number of the microbatch's first sample.
func (s *session) constant(v *graph.Value, microbatch int) []byte {
	if v.Name != models.BaseName {
		panic("BUG: unknown constant " + v.Name)
	}
	return shape.Bytes([]int32{int32(microbatch * s.w.Batch / s.parts)})
}

// fillBatches makes the batches, in host memory of the device that reads them.
func (s *session) fillBatches(dev device.Device) error {
	var held int64
	for _, v := range s.prog.Inputs() {
		held += batches * int64(s.parts) * v.Meta.Bytes()
	}
	if err := s.rt.Residency.HoldHost(held); err != nil {
		return err
	}
	for i := range s.batch {
		b := &s.batch[i]
		b.Samples = s.w.Batch
		for _, v := range s.prog.Inputs() {
			hb, err := dev.AllocHost(v.Meta.Bytes() * int64(s.parts))
			if err != nil {
				return err
			}
			s.fields = append(s.fields, hb)
			b.Fields = append(b.Fields, hb)
			fill(s.w, v, rng.Named(seed, fmt.Sprintf("%s batch %d", v.Name, i)), hb.Bytes())
		}
	}
	return nil
}

// fill writes an input: floats from a normal distribution, tokens and classes
// evenly from those of the workload.
func fill(w Workload, v *graph.Value, k rng.Key, dst []byte) {
	if v.Meta.DType == shape.Float32 {
		rng.Normal(shape.View[float32](dst), k, 1)
		return
	}
	ids := shape.View[int32](dst)
	for i := range ids {
		word := k.At(uint64(i/4), 0)[i%4]
		ids[i] = int32(uint64(word) * uint64(w.Classes) >> 32)
	}
}

// step queues a step and waits for the step before it, as training does. It
// allocates no Go memory.
func (s *session) step(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := s.prog.Step(ctx, s.batch[s.stepped%batches])
	if err != nil {
		return err
	}
	s.rt.Residency.Ledger().Step()
	before := s.last
	s.last = t
	s.stepped++
	return s.prog.Wait(ctx, before)
}

// finish waits for the newest step.
func (s *session) finish(ctx context.Context) error { return s.prog.Wait(ctx, s.last) }

// loss is the mean loss of the newest step. Call finish first.
func (s *session) loss(ctx context.Context) (float64, error) {
	t := s.prog.Var(models.LossRing)
	if err := s.rt.Residency.PullBack(ctx, ledger.Log, t); err != nil {
		return 0, err
	}
	var loss float64
	err := s.rt.Residency.View(t, func(b []byte) error {
		loss = float64(shape.View[float32](b)[(s.stepped-1)%ring])
		return nil
	})
	return loss, err
}

// close waits for queued steps and frees everything.
func (s *session) close() error {
	var errs []error
	if s.rt != nil {
		errs = append(errs, s.rt.Close())
	}
	for _, hb := range s.fields {
		errs = append(errs, hb.Free())
	}
	return errors.Join(append(errs, s.closeDevices())...)
}

func (s *session) closeDevices() error {
	var errs []error
	for _, d := range s.devs {
		errs = append(errs, d.Close())
	}
	s.devs = nil
	return errors.Join(errs...)
}
