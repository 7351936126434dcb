package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/residency/ledger"
)

// batches is the number of different batches. A step's batch must not change
// until the step is over, and two steps can be under way.
const batches = 2

// patience is the longest that an operation may take once the measurement is to
// end.
const patience = 3 * time.Second

// training is a workload loaded on devices, ready to step. One goroutine at a
// time uses it.
type training struct {
	w       Workload
	parts   int // microbatches
	graph   *graph.Graph
	on      *session.Session
	faulty  []device.Device // the session's, with RunOptions.Faults
	rt      *executor.Runtime
	prog    *executor.Program
	batch   [batches]executor.Batch
	fields  []device.HostBuffer // of all batches
	ends    stepEnds            // fed by the streams
	kernels kernelTimes         // fed by the streams, with RunOptions.Profile
	looks   *looks              // nil without RunOptions.Watch
	ranks   *together           // nil: this process is alone
	rows    int64               // samples of a batch that this rank is fed
	waits   context.Context     // of steps: ends with the devices alone, so that one that hangs is named
	last    executor.Ticket     // the newest step; 0 before the first
	stepped int                 // steps so far
}

// open loads a workload and starts copying its weights in. The caller closes
// the training.
func open(ctx context.Context, w Workload, o RunOptions) (*training, error) {
	s := &training{w: w, parts: max(1, o.Microbatches), waits: context.WithoutCancel(ctx), ranks: newTogether(o.Ranks)}
	if err := w.checkMicrobatches(s.parts); err != nil {
		return nil, err
	}
	if err := s.load(ctx, o); err != nil {
		s.ranks.quit(true, err)
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// load opens a session that plans the workload, and fills its batches.
func (s *training) load(ctx context.Context, o RunOptions) (err error) {
	if s.graph, err = s.w.Graph(s.parts, o.Precision == bf16Name); err != nil {
		return err
	}
	so := o.session(s.w.Batch, s.parts)
	so.OnSpan, so.OnKernel = s.ends.add, o.onKernel
	if o.Profile {
		so.OnKernel = s.kernels.add
	}
	if o.Watch > 0 {
		s.looks = &looks{}
		so.OnSpan = func(x device.Span) {
			s.ends.add(x)
			s.looks.add(x)
		}
	}
	s.on, err = session.Open(so, func(on *session.Session) (err error) {
		on.Choice, err = on.Planner.Choose(ctx, s.graph)
		on.Plan = on.Choice.Plan
		return err
	})
	if err != nil {
		return interrupted(o.refused(err))
	}
	err = s.ready(ctx, o)
	if s.ranks != nil {
		err = s.ranks.agree(ctx, "its model", err)
	}
	return err
}

// ready loads the plan, and fills the batches.
func (s *training) ready(ctx context.Context, o RunOptions) (err error) {
	if err := s.ends.follow(s.on, s.parts, o.OpByOp); err != nil {
		return err
	}
	if s.faulty, err = fault.Wrap(s.on.Devices, o.Faults); err != nil {
		return err
	}
	if s.rt, err = o.runtime(ctx, s.on, s.faulty); err != nil {
		return err
	}
	s.prog, err = s.rt.Load(executor.LoadOptions{Net: "bench", Full: s.on.Plan, LastMicrobatches: s.parts, Constant: s.constant, OpByOp: o.OpByOp, CheckFinite: o.OpByOp})
	if err != nil {
		return err
	}
	if err := s.fillBatches(s.faulty[firstHere(s.on)]); err != nil {
		return err
	}
	rows, err := s.prog.Rows(s.w.Batch, 0)
	if err != nil {
		return err
	}
	for _, r := range rows {
		s.rows += int64(r.To - r.From)
	}
	return s.prog.Init(ctx, func(v *graph.Value, dst []byte) error {
		models.Fill(v, seed, dst)
		return nil
	})
}

// constant gives the contents of a per-microbatch constant. There is one such
// constant, the number of the microbatch's first sample.
func (s *training) constant(v *graph.Value, microbatch int) []byte {
	if v.Name != models.BaseName {
		panic("BUG: unknown constant " + v.Name)
	}
	return shape.Bytes([]int32{int32(microbatch * s.w.Batch / s.parts)})
}

// firstHere is the device of the first stage, or else the first one of this process.
func firstHere(on *session.Session) int {
	d := on.Plan.Stages[0].Device
	if on.Here(d) {
		return d
	}
	for d = 0; !on.Here(d); d++ {
	}
	return d
}

// fillBatches makes the batches, in host memory of the device that reads them.
func (s *training) fillBatches(dev device.Device) error {
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
		var memory [][]byte
		for _, v := range s.prog.Inputs() {
			hb, err := dev.AllocHost(v.Meta.Bytes() * int64(s.parts))
			if err != nil {
				return err
			}
			s.fields = append(s.fields, hb)
			b.Fields = append(b.Fields, hb)
			memory = append(memory, hb.Bytes())
			if s.w.own == nil {
				fill(s.w, v, rng.Named(seed, fmt.Sprintf("%s batch %d", v.Name, i)), hb.Bytes())
			}
		}
		if s.w.own != nil {
			if err := s.w.own.read(i, s.w.Batch, s.prog.Inputs(), memory); err != nil {
				return err
			}
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
func (s *training) step(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := s.prog.Step(s.waits, s.batch[s.stepped%batches])
	if err != nil {
		return err
	}
	s.rt.Residency.Ledger().Step()
	before := s.last
	s.last = t
	s.stepped++
	if err := s.looks.after(ctx, s.stepped, s.w.Batch); err != nil {
		return err
	}
	return s.prog.Wait(s.waits, before)
}

// run takes steps until there are enough, at least one, and returns how many. The last one may still be under way.
func (s *training) run(ctx context.Context, enough func(steps int) bool) (n int, err error) {
	if s.ranks != nil {
		return s.ranks.run(ctx, enough, s.step)
	}
	for ; n == 0 || !enough(n); n++ {
		if err := s.step(ctx); err != nil {
			return n, err
		}
	}
	return n, nil
}

// finish waits for the newest step.
func (s *training) finish() error { return s.prog.Wait(s.waits, s.last) }

// loss is the mean loss of the newest step; of ranks, on rank 0 alone, and all call it. Call finish first.
func (s *training) loss(ctx context.Context) (float64, error) {
	losses, err := boundary.Rings{Runtime: s.rt, Program: s.prog}.Lead(ctx, s.ranks.of(), ledger.Log, models.LossRing)
	if err != nil || losses == nil {
		return 0, err
	}
	return losses.Of(s.stepped), nil
}

// close waits for queued steps and frees everything.
func (s *training) close() error {
	var errs []error
	s.looks.close()
	if s.rt != nil {
		errs = append(errs, s.rt.Close())
	}
	for _, hb := range s.fields {
		errs = append(errs, hb.Free())
	}
	if s.on != nil {
		errs = append(errs, s.on.Close())
	}
	return errors.Join(errs...)
}
