package trained

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
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

// ServeOptions describes a service. A zero field means its default.
type ServeOptions struct {
	Batch int // most samples of a batch; default 32
	Queue int // most samples that wait for a batch, and most texts that wait for their turn; default 1024
	Texts int // texts that are generated at once, each with caches of its own on the devices; default 4

	// AtOnce has Serve fail with residency.ErrOccupied where other users of shared Devices leave
	// too little memory. Default: it waits until some of them close.
	AtOnce bool
}

// check refuses options that no service can have, and gives zero fields their defaults.
func (o *ServeOptions) check() error {
	for _, x := range []struct {
		field          string
		value          *int
		most, standard int
	}{{"Batch", &o.Batch, 4096, 32}, {"Queue", &o.Queue, 1 << 20, 1024}, {"Texts", &o.Texts, 256, 4}} {
		if *x.value < 0 || *x.value > x.most {
			return fmt.Errorf("%w: ServeOptions.%s is %d: give a number from 1 to %d, or 0 for the default", errs.ErrOptions, x.field, *x.value, x.most)
		}
		if *x.value == 0 {
			*x.value = x.standard
		}
	}
	return nil
}

// Serve copies the weights in, and compiles a program for each size of a batch. The caller closes
// the service.
func (t *Model) Serve(ctx context.Context, o ServeOptions) (_ *Service, err error) {
	defer func() { err = errors.Join(err, t.loaded()) }()
	if err := o.check(); err != nil {
		return nil, err
	}
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
func (s *Service) open(ctx context.Context, o ServeOptions) (err error) {
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
