package berth

import (
	"cmp"
	"context"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/trained"
	"github.com/berth-ml/berth/internal/errs"
)

// ServeOptions describes a service. A zero field means its default.
type ServeOptions = trained.ServeOptions

// Service is a trained model whose weights stay on the devices between calls, to answer
// requests. It has what all requests share: weights, programs, caches. Each device, or as few together as
// have room for the whole model, has a copy of the weights, and all answer at the same time; after the loss of one, the others
// go on. It is safe for concurrent use. Samples of calls that wait are put together into batches of 1, 2, 4, …
// up to ServeOptions.Batch samples; answers do not depend on what else is in a batch, to
// the bit. Devices of different kinds differ in the last bits.
type Service struct{ service *trained.Service }

// ServiceStats counts what a service has done.
type ServiceStats = answer.ServiceStats

// ServiceGroupStats counts what the devices of one copy of the weights have done for a service.
type ServiceGroupStats = answer.GroupStats

// Adapter is a run with an adapter of low rank (adapt.lora), to be served beside others of one base.
type Adapter = trained.Adapter

// KeptAdapter is an adapter of a service, with its weights in host memory: see [Service.Keep].
type KeptAdapter = trained.KeptAdapter

// ServicePart is weights of a service: those of the model itself, or of an adapter beside them.
type ServicePart = trained.Part

// OpenAdapters opens the base that adapters were trained beside. The model's own answers are the
// base's, to samples like the first adapter's. [Trained.Serve] copies the base in once, and
// [Service.Adapter] answers with each adapter. Ranks, scalings, targets and data of the adapters may differ. Adapters of
// different bases are refused with [ErrOptions], which names the runs and the SHA-256 of each
// base. The devices are those of the first adapter's config, unless o has others. The caller closes
// it.
func OpenAdapters(ctx context.Context, list []Adapter, o TrainedOptions) (*Trained, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	m, err := trained.OpenAdapters(ctx, list, o)
	if err != nil {
		return nil, err
	}
	return &Trained{m}, nil
}

// Serve copies the weights in, and compiles a program for each size of a batch, for each copy of the weights. Until
// the service is closed, no other method of t is called but those that describe it. The
// caller closes it.
func (t *Trained) Serve(ctx context.Context, o ServeOptions) (*Service, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	s, err := t.model.Serve(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Service{s}, nil
}

// Adapter is the service of an adapter, by its name: its answers are those of that run alone. It
// has batches of its own, and the same limits on texts; Close ends both. "" is the model itself. A
// name that there is not is refused with [ErrOptions].
func (s *Service) Adapter(name string) (*Service, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	a, err := s.service.Adapter(name)
	if err != nil {
		return nil, err
	}
	return &Service{a}, nil
}

// Keep copies the weights of an adapter to host memory. As [Adapter].Kept they are served again by
// [OpenAdapters], without the checkpoint, which may be gone. A name that there is not is refused
// with [ErrOptions].
func (s *Service) Keep(ctx context.Context, name string) (*KeptAdapter, error) {
	if err := cmp.Or(s.checkOpen(), errs.CheckContext(ctx)); err != nil {
		return nil, err
	}
	return s.service.Keep(ctx, name)
}

// Parts are the weights of the service: those of the model, and of each adapter in the order of
// [OpenAdapters].
func (s *Service) Parts() []ServicePart {
	if s.checkOpened() != nil {
		return nil
	}
	return s.service.Parts()
}

// Info describes the data that the service's model, or its adapter, was trained on.
func (s *Service) Info() *datasets.Info {
	if s.checkOpened() != nil {
		return nil
	}
	return s.service.Info()
}

// CanGenerate is nil where [Service.Generate] continues texts, else the reason why not.
func (s *Service) CanGenerate() error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	return s.service.CanGenerate()
}

// Predict computes the model's outputs for samples, a tensor of [n, …]: [n, outputs], and
// [n, positions, outputs] of a sequence. Features of a table, and numbers of an answer, are
// in the unit of the data. Sequences of different lengths have datasets.Padding behind
// their tokens; the positions are those of the largest bucket, with zeros behind a
// sequence's. Outputs of a classifier are probabilities. Where ctx ends first,
// the error is its cause; where too many samples wait, it is ErrBusy.
func (s *Service) Predict(ctx context.Context, samples *tensor.Dense) (*tensor.Dense, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s.service.Predict(ctx, samples)
}

// Answers is Predict with an answer for each sample, as [Trained.Predict] gives them: with
// its class, and the class's name. Of a text, it is about the token after the sample's last.
func (s *Service) Answers(ctx context.Context, samples *tensor.Dense) ([]Prediction, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s.service.Answers(ctx, samples)
}

// Rows is Answers for rows of a table: values by the names of their columns, as
// [Trained.PredictRows] takes them.
func (s *Service) Rows(ctx context.Context, rows []map[string]any) ([]Prediction, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s.service.Rows(ctx, rows)
}

// Generate continues a text, as [Trained.Generate] does, with the same text for the same
// options, on the devices that generate the fewest. Where all have ServeOptions.Texts under way, it waits; where
// too many wait, it fails with ErrBusy. A text whose device is lost begins again on another one, unless it has tokens: then the
// error is the loss. The texts of a service have the model's own context: o.Context is 0, or
// that.
func (s *Service) Generate(ctx context.Context, o GenerateOptions, emit func(Piece) error) (Generation, error) {
	if err := cmp.Or(s.check(ctx), checkEmit(emit == nil)); err != nil {
		return Generation{}, err
	}
	return s.service.Generate(ctx, o, emit)
}

// AnswerBytes is the bytes of the Values of a Prediction.
func (s *Service) AnswerBytes() int64 {
	if s.checkOpened() != nil {
		return 0
	}
	return s.service.AnswerBytes()
}

// Warnings say what went wrong and did no harm, such as a copy that failed on a device and
// was repeated. Each is returned once; beyond 100, the oldest are dropped.
func (s *Service) Warnings() []string {
	if s.checkOpened() != nil {
		return nil
	}
	return s.service.Warnings()
}

// Used says which weights the service has.
func (s *Service) Used() Used {
	if s.checkOpened() != nil {
		return Used{}
	}
	return s.service.Used()
}

// Stats says what the service has done so far. It does not wait for devices.
func (s *Service) Stats() ServiceStats {
	if s.checkOpened() != nil {
		return ServiceStats{}
	}
	return s.service.Stats()
}

// Err is the loss of a device after which the service answers nothing, nil before: close
// it, and open another. After Close it stays what it was.
func (s *Service) Err() error {
	if err := s.checkOpened(); err != nil {
		return err
	}
	return s.service.Err()
}

// Close waits for the batch and the tokens under way, and frees the devices' memory. Calls
// that wait, texts under way and later calls fail with ErrClosed. A nil or closed Service has none.
func (s *Service) Close() error {
	if s.checkOpened() != nil {
		return nil
	}
	return s.service.Close()
}
