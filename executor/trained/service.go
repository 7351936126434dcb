package trained

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/datasets"
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

// Service is a service of a model, which has the devices until it is closed. Those of the
// model's adapters share all but their answers.
type Service struct {
	*opened
	answers *answer.Service
	model   answer.Model
	used    checkpoint.Used
}

// opened is what the services of a model and of its adapters have together.
type opened struct {
	trained *Model
	rt      *executor.Runtime
	parts   []Part
	leave   func()      // lets other calls use the devices
	closed  atomic.Bool // Close was called
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
	s := &Service{opened: &opened{trained: t, leave: leave}, model: t.session.Trained()}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(answer.Kept(err), s.end())
	}
	s.used, s.parts = t.used, t.parts()
	return s, nil
}

// open makes the runtime, and the service on it.
func (s *Service) open(ctx context.Context, o ServeOptions) (err error) {
	on := s.trained.session
	needs := s.needs(ctx)
	var adapters []answer.Adapted
	if s.trained.adapters != nil {
		if err := s.trained.besides(ctx, &needs); err != nil {
			return err
		}
	}
	for _, a := range s.trained.adapters {
		adapters = append(adapters, answer.Adapted{Model: a.of(on), Load: a.load})
	}
	needs.AtOnce = o.AtOnce
	if s.rt, err = s.trained.runtime(ctx, needs); err != nil {
		return err
	}
	on.Watch(s.rt, nil, func() time.Duration { return session.LeastPatience })
	s.answers, err = answer.NewService(ctx, s.rt, s.model, answer.ServiceOptions{
		Batch: o.Batch, Queue: o.Queue, Texts: o.Texts, Load: s.trained.load, Adapters: adapters,
		Lost: func(id device.ID, err error) { on.GiveUp(s.rt, id, err) },
	})
	return err
}

// needs is the memory of a service: the plan's, and where the model is of text the one for
// generating, if that is more.
func (s *Service) needs(ctx context.Context) (o residency.TenantOptions) {
	if s.model.Speaks() != nil {
		return o
	}
	plan, err := infer.GeneratorPlan(s.model.Infer, s.model.Generator(), stop.Of(ctx))
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

// Predict computes the model's outputs for samples, a tensor of [n, …].
func (s *Service) Predict(ctx context.Context, samples *tensor.Dense) (*tensor.Dense, error) {
	b, err := answer.BatchOf(&s.model, samples)
	if err != nil {
		return nil, err
	}
	return answer.TensorOf(s.answers.Predict(ctx, b))
}

// Answers is Predict with an answer for each sample, with its class.
func (s *Service) Answers(ctx context.Context, samples *tensor.Dense) ([]answer.Prediction, error) {
	b, err := answer.BatchOf(&s.model, samples)
	if err != nil {
		return nil, err
	}
	return s.answers.Answers(ctx, b)
}

// Rows is Answers for rows of a table: values by the names of their columns.
func (s *Service) Rows(ctx context.Context, rows []map[string]any) ([]answer.Prediction, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	info := s.model.Info
	values, err := datasets.RowFeatures(info, rows)
	if err != nil {
		return nil, errs.With(err, errs.ErrData)
	}
	return s.Answers(ctx, tensor.New(tensor.WithShape(len(rows), info.Inputs[0].Meta.Elems()), tensor.WithBacking(values)))
}

// Generate continues a text: see [answer.Service.Generate].
func (s *Service) Generate(ctx context.Context, o answer.GenerateOptions, emit func(answer.Piece) error) (answer.Generation, error) {
	res, err := s.answers.Generate(ctx, o, emit)
	if res.PromptTokens > 0 { // the text began
		res.Weights = s.used
	}
	return res, err
}

// AnswerBytes is the bytes of the Values of a Prediction.
func (s *Service) AnswerBytes() int64 { return s.answers.AnswerBytes() }

// Warnings say what went wrong and did no harm: see [answer.Service.Warnings].
func (s *Service) Warnings() []string { return s.answers.Warnings() }

// Adapter is the service of the adapter of a name: it answers with that one, and is open as long as s
// is. "" is the model itself. A name that there is not is refused with errs.ErrOptions.
func (s *Service) Adapter(name string) (*Service, error) {
	if name == "" {
		return &Service{s.opened, s.answers.Adapter(-1), s.trained.session.Trained(), s.trained.used}, nil
	}
	if s.trained.adapters == nil {
		return nil, fmt.Errorf("%w: there is no adapter %q: the service has none", errs.ErrOptions, name)
	}
	var names []string
	for i, a := range s.trained.adapters {
		if a.Name == name {
			return &Service{s.opened, s.answers.Adapter(i), a.of(s.trained.session), a.used}, nil
		}
		names = append(names, a.Name)
	}
	return nil, fmt.Errorf("%w: there is no adapter %q: there are %s", errs.ErrOptions, name, strings.Join(names, ", "))
}

// Info describes the data that the service's model was trained on.
func (s *Service) Info() *datasets.Info { return s.model.Info }

// CanGenerate is [Model.CanGenerate] of the service's model.
func (s *Service) CanGenerate() error { return s.model.Speaks() }

// Parts are the weights of the service: those of the model, and of each adapter in the order in
// which they were given.
func (s *Service) Parts() []Part { return slices.Clone(s.parts) }

// Used says which weights the service has.
func (s *Service) Used() checkpoint.Used { return s.used }

// Stats says what the service has done so far. It does not wait for devices.
func (s *Service) Stats() answer.ServiceStats { return s.answers.Stats() }

// Err is the loss of a device after which the service answers nothing, nil before.
func (s *Service) Err() error { return s.answers.Err() }

// CheckOpen refuses a closed service.
func (s *Service) CheckOpen() error {
	if s.closed.Load() {
		return errs.ErrClosed
	}
	return nil
}

// Close waits for the batch and the tokens under way, and frees the devices' memory. A second call
// does nothing.
func (s *Service) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return errors.Join(s.answers.Close(), s.end())
}

// end gives back the devices.
func (s *Service) end() (err error) {
	if s.rt != nil {
		err = s.rt.Close()
	}
	err = errors.Join(err, s.trained.release())
	s.leave()
	return err
}
