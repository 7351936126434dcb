package trained

import (
	"context"
	"errors"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/planning"
	"github.com/berth-ml/berth/residency"
)

// Service is a service of a model, which has the devices until it is closed.
type Service struct {
	Answers *answer.Service
	Model   answer.Model

	trained *Model
	rt      *executor.Runtime
	leave   func() // lets other calls use the devices
}

// ServiceOptions describe a service.
type ServiceOptions struct {
	Batch, Queue, Texts int  // see answer.ServiceOptions
	AtOnce              bool // fail with residency.ErrOccupied where others have the memory, in place of waiting
}

// Serve copies the weights in, and compiles a program for each size of a batch. The caller closes
// the service.
func (t *Model) Serve(ctx context.Context, o ServiceOptions) (_ *Service, err error) {
	defer func() { err = errors.Join(err, t.loaded()) }()
	if err := t.session.Usable(); err != nil {
		return nil, err
	}
	leave, err := t.session.Keep()
	if err != nil {
		return nil, err
	}
	s := &Service{Model: t.session.Trained(), trained: t, leave: leave}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(answer.Kept(err), s.end())
	}
	return s, nil
}

// open makes the runtime, and the service on it.
func (s *Service) open(ctx context.Context, o ServiceOptions) (err error) {
	on := s.trained.session
	needs := s.needs(ctx)
	needs.AtOnce = o.AtOnce
	if s.rt, err = on.Runtime(ctx, on.Devices, s.trained.weights.Dir, needs); err != nil {
		return err
	}
	on.Watch(s.rt, nil, func() time.Duration { return session.LeastPatience })
	s.Answers, err = answer.NewService(ctx, s.rt, s.Model, answer.ServiceOptions{
		Batch: o.Batch, Queue: o.Queue, Texts: o.Texts, Load: s.trained.load,
		Lost: func(id device.ID, err error) { on.GiveUp(s.rt, id, err) },
	})
	return err
}

// needs is the memory of a service: the plan's, and where the model is of text the one for
// generating, if that is more.
func (s *Service) needs(ctx context.Context) (o residency.TenantOptions) {
	if s.Model.Speaks() != nil {
		return o
	}
	plan, err := infer.GeneratorPlan(s.Model.Infer, s.Model.Generator(), stop.Of(ctx))
	if err != nil { // the model predicts all the same; Generate says why it does not
		return o
	}
	on := s.trained.session
	o.Floors, o.Peaks = on.MemoryOf(on.Plan, on.Groups)
	floors, peaks := on.MemoryOf(plan, planning.Groups{})
	for i := range floors {
		o.Floors[i], o.Peaks[i] = max(o.Floors[i], floors[i]), max(o.Peaks[i], peaks[i])
	}
	o.LargestBytes = session.LargestOf(plan.Graph)
	return o
}

// Close waits for the batch and the tokens under way, and frees the devices' memory. It is called
// once.
func (s *Service) Close() error { return errors.Join(s.Answers.Close(), s.end()) }

// end gives back the devices.
func (s *Service) end() (err error) {
	if s.rt != nil {
		err = s.rt.Close()
	}
	err = errors.Join(err, s.trained.release())
	s.leave()
	return err
}
