package berth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency"
)

// ErrBusy is returned by a Service whose queue is full: try again later.
var ErrBusy = errs.ErrBusy

// ServeOptions describes a service. A zero field means its default.
type ServeOptions struct {
	Batch int // most samples of a batch; default 32
	Queue int // most samples that wait for a batch, and most texts that wait for their turn; default 1024
	Texts int // texts that are generated at once, each with caches of its own on the devices; default 4

	// AtOnce has Serve fail with ErrOccupied where other users of shared Devices leave
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
			return fmt.Errorf("%w: ServeOptions.%s is %d: give a number from 1 to %d, or 0 for the default", ErrOptions, x.field, *x.value, x.most)
		}
		if *x.value == 0 {
			*x.value = x.standard
		}
	}
	return nil
}

// Service is a trained model whose weights stay on the devices between calls, to answer
// requests. It has what all requests share: weights, programs, caches. It is safe for
// concurrent use. Samples of calls that wait are put together into batches of 1, 2, 4, …
// up to ServeOptions.Batch samples; answers do not depend on what else is in a batch, to
// the bit.
type Service struct {
	service *answer.Service
	model   answer.Model
	trained *Trained
	rt      *executor.Runtime
	leave   func() // lets other calls use the devices
	closing sync.Once
}

// ServiceStats counts what a service has done.
type ServiceStats = answer.ServiceStats

// Serve copies the weights in, and compiles a program for each size of a batch. Until
// the service is closed, no other method of t is called but those that describe it. The
// caller closes it.
func (t *Trained) Serve(ctx context.Context, o ServeOptions) (_ *Service, err error) {
	defer func() { err = errors.Join(err, t.loaded()) }()
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := t.setup.usable(); err != nil {
		return nil, err
	}
	leave, err := t.setup.keep()
	if err != nil {
		return nil, err
	}
	s := &Service{trained: t, model: t.setup.trainedModel(), leave: leave}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(answer.Kept(err), s.end())
	}
	return s, nil
}

// open makes the runtime, and the service on it.
func (s *Service) open(ctx context.Context, o ServeOptions) (err error) {
	set := s.trained.setup
	needs, err := s.needs(ctx)
	if err != nil {
		return err
	}
	needs.AtOnce = o.AtOnce
	if s.rt, err = set.runtime(ctx, set.devs, s.trained.weights.Dir, needs); err != nil {
		return err
	}
	set.watch(s.rt, nil, func() time.Duration { return leastPatience })
	s.service, err = answer.NewService(ctx, s.rt, s.model, answer.ServiceOptions{
		Batch: o.Batch, Queue: o.Queue, Texts: o.Texts, Load: s.trained.load,
		Lost: func(id device.ID, err error) { set.giveUp(s.rt, id, err) },
	})
	return err
}

// needs is the memory of a service: the plan's, and where the model is of text the one for
// generating, if that is more.
func (s *Service) needs(ctx context.Context) (o residency.TenantOptions, err error) {
	set := s.trained.setup
	if s.model.Speaks() != nil {
		return o, nil
	}
	plan, err := infer.GeneratorPlan(s.model.Infer, s.model.Generator(), stopOf(ctx))
	if err != nil { // the model predicts all the same; Generate says why it does not
		return o, nil
	}
	o.Floors, o.Peaks = set.memoryOf(set.plan, set.groups)
	floors, peaks := set.memoryOf(plan, groups{})
	for i := range floors {
		o.Floors[i], o.Peaks[i] = max(o.Floors[i], floors[i]), max(o.Peaks[i], peaks[i])
	}
	o.LargestBytes = largestOf(plan.Graph)
	return o, nil
}

// Predict computes the model's outputs for samples, a tensor of [n, …]: [n, outputs], and
// [n, positions, outputs] of a sequence. Features of a table, and numbers of an answer, are
// in the unit of the data. Sequences of different lengths have datasets.Padding behind
// their tokens; the positions are those of the largest bucket, with zeros behind a
// sequence's. Outputs of a classifier are probabilities. Where ctx ends first,
// the error is its cause; where too many samples wait, it is ErrBusy.
func (s *Service) Predict(ctx context.Context, samples *tensor.Dense) (*tensor.Dense, error) {
	b, err := batchOf(&s.model, samples)
	if err != nil {
		return nil, err
	}
	return tensorOf(s.service.Predict(ctx, b))
}

// Answers is Predict with an answer for each sample, as [Trained.Predict] gives them: with
// its class, and the class's name. Of a text, it is about the token after the sample's last.
func (s *Service) Answers(ctx context.Context, samples *tensor.Dense) ([]Prediction, error) {
	b, err := batchOf(&s.model, samples)
	if err != nil {
		return nil, err
	}
	return s.service.Answers(ctx, b)
}

// Generate continues a text, as [Trained.Generate] does, with the same text for the same
// options. Where ServeOptions.Texts are under way, it waits; where too many wait, it fails
// with ErrBusy. The texts of a service have the model's own context: o.Context is 0, or
// that.
func (s *Service) Generate(ctx context.Context, o GenerateOptions, emit func(Piece) error) (Generation, error) {
	res, err := s.service.Generate(ctx, o, emit)
	if res.PromptTokens > 0 { // the text began
		res.Weights = s.trained.used
	}
	return res, err
}

// AnswerBytes is the bytes of the Values of a Prediction.
func (s *Service) AnswerBytes() int64 { return s.service.AnswerBytes() }

// Warnings say what went wrong and did no harm, such as a copy that failed on a device and
// was repeated. Each is returned once; beyond 100, the oldest are dropped.
func (s *Service) Warnings() []string { return s.service.Warnings() }

// Used says which weights the service has.
func (s *Service) Used() Used { return s.trained.used }

// Stats says what the service has done so far. It does not wait for devices.
func (s *Service) Stats() ServiceStats { return s.service.Stats() }

// Err is the loss of a device after which the service answers nothing, nil before: close
// it, and open another.
func (s *Service) Err() error { return s.service.Err() }

// Close waits for the batch and the tokens under way, and frees the devices' memory. Calls
// that wait, texts under way and later calls fail with ErrClosed.
func (s *Service) Close() (err error) {
	s.closing.Do(func() { err = errors.Join(s.service.Close(), s.end()) })
	return err
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

// batchOf checks a tensor of samples.
func batchOf(m *answer.Model, samples *tensor.Dense) (b answer.Batch, err error) {
	meta, memory, err := hosttensor.Bytes(samples)
	if err != nil {
		return b, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return m.Check(meta, memory)
}

// tensorOf makes a tensor of outputs.
func tensorOf(m shape.Meta, out []float32, err error) (*tensor.Dense, error) {
	if err != nil {
		return nil, err
	}
	return hosttensor.Over(m, shape.Bytes(out))
}
