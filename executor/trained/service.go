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
	"github.com/berth-ml/berth/partition"
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
	rts     []*executor.Runtime // of each group of devices
	parts   []Part
	leave   func()      // lets other calls use the devices
	closed  atomic.Bool // Close was called
}

// ServeOptions describes a service. A zero field means its default.
type ServeOptions struct {
	Batch int // most samples of a batch; default 32
	Queue int // most samples that wait for a batch, and most texts that wait for their turn; default 1024
	Texts int // texts that are generated at once with each copy of the weights; the devices have caches for as many; default 4

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

// Serve copies the weights in, and compiles a program for each size of a batch. Each device, or as few
// together as have room for the whole model, has a copy of the weights, and all answer at the same time. The caller closes
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
	t.begin()
	defer func() { t.first = false }()
	s := &Service{opened: &opened{trained: t, leave: leave}, model: t.session.Trained()}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(answer.Kept(err), s.end())
	}
	s.used, s.parts = t.used, t.parts()
	return s, nil
}

// open makes the runtimes, and the service on them. All have their memory before weights are loaded.
func (s *Service) open(ctx context.Context, o ServeOptions) error {
	parts, err := s.trained.apart(ctx)
	if err != nil {
		return err
	}
	var needs []residency.TenantOptions
	for _, part := range parts {
		n, err := s.trained.onSession(part).needs(ctx, o.Texts)
		if err != nil {
			return err
		}
		needs = append(needs, n)
	}
	if err := s.join(ctx, parts, needs, o.AtOnce); err != nil {
		return err
	}
	var groups []answer.Group
	for i, part := range parts {
		groups = append(groups, s.group(part, s.rts[i]))
	}
	return s.load(ctx, groups, answer.ServiceOptions{Batch: o.Batch, Queue: o.Queue, Texts: o.Texts})
}

// join makes a runtime on each group of devices. While it waits for the memory of one, it has none of the others: a run
// that waits for those, and before it for that one, would otherwise wait for ever.
func (s *Service) join(ctx context.Context, parts []*session.Session, needs []residency.TenantOptions, atOnce bool) error {
	for first := 0; ; {
		occupied, err := s.joinFrom(ctx, first, parts, needs, atOnce)
		if atOnce || !errors.Is(err, residency.ErrOccupied) {
			return err
		}
		if err := s.closeRuntimes(); err != nil {
			return err
		}
		first = occupied
	}
}

// joinFrom makes a runtime on each group of devices, from the one at first on. It waits for the memory of that one alone,
// and not even for that if all is to be there at once. After an error, it says which group has none.
func (s *Service) joinFrom(ctx context.Context, first int, parts []*session.Session, needs []residency.TenantOptions, atOnce bool) (failed int, err error) {
	s.rts = make([]*executor.Runtime, len(parts))
	for k := range parts {
		i := (first + k) % len(parts)
		n, on := needs[i], s.trained.onSession(parts[i])
		n.AtOnce = atOnce || k > 0
		rt, err := on.runtime(ctx, n)
		if err != nil {
			return i, err
		}
		s.rts[i], s.trained.beside = rt, on.beside
		parts[i].Watch(rt, nil, func() time.Duration { return session.LeastPatience })
	}
	return 0, nil
}

// group is a group of devices with its runtime.
func (s *Service) group(part *session.Session, rt *executor.Runtime) answer.Group {
	g := answer.Group{
		Runtime: rt, Model: part.Trained(), Load: s.trained.load,
		Lost: func(id device.ID, err error) { part.GiveUp(rt, id, err) },
	}
	for _, d := range part.Devices {
		g.Devices = append(g.Devices, d.ID())
	}
	for _, a := range s.trained.adapters {
		g.Adapters = append(g.Adapters, answer.Adapted{Model: a.of(part), Load: a.load})
	}
	return g
}

// load makes the service, with the weights on all groups. Where a run that trains meanwhile deletes a checkpoint that only
// some of them have, all begin again with the one that is meant then: each answers with the same weights.
func (s *Service) load(ctx context.Context, groups []answer.Group, o answer.ServiceOptions) (err error) {
	for range rounds {
		if s.answers, err = answer.NewService(ctx, groups, o); !errors.Is(err, errHalf) {
			return err
		}
		if err := s.trained.pickAgain(ctx); err != nil {
			return err
		}
	}
	return err
}

// onSession is the model on another session, to plan and to make a runtime.
func (t *Model) onSession(s *session.Session) *Model {
	on := *t
	on.session = s
	return &on
}

// apart is the session on each group of devices that has the whole model. Devices of different kinds have it each, too,
// where that needs no tensor to leave them and the config has no stages; otherwise they are one group.
func (t *Model) apart(ctx context.Context) (list []*session.Session, err error) {
	s := t.session
	kinds := s.Kinds()
	if c := s.Config.Partition.Stages; len(kinds) < 2 || max(c.Count, len(c.Blocks)) > 0 {
		list, err := t.groupsOf(ctx, s)
		if len(list) > 1 {
			session.Divide(list)
		}
		return list, err
	}
	for _, kind := range kinds {
		part := s.Only(kind)
		switch err := t.planned(ctx, part); {
		case errors.Is(err, partition.ErrMemory), err == nil && part.Plan.AnyTight():
			return []*session.Session{s}, nil
		case err != nil:
			return nil, part.Placed(err)
		}
		groups, err := t.groupsOf(ctx, part)
		if err != nil {
			return nil, err
		}
		list = append(list, groups...)
	}
	session.Divide(list)
	return list, nil
}

// groupsOf is a session on each of its groups of devices. Each has a plan of its own, which needs no other device, as
// that one may be lost later.
func (t *Model) groupsOf(ctx context.Context, s *session.Session) ([]*session.Session, error) {
	list := s.Apart()
	for _, part := range list {
		if part == s {
			continue
		}
		if err := t.planned(ctx, part); err != nil {
			return nil, part.Placed(err)
		}
	}
	return list, nil
}

// needs is the memory of a service: the plan's, and where the model is of text the one for
// generating so many texts at once, if that is more; and that of the adapters.
func (t *Model) needs(ctx context.Context, texts int) (o residency.TenantOptions, err error) {
	on := t.session
	m := on.Trained()
	if m.Speaks() == nil {
		size := m.Generator()
		size.Texts = texts
		plans, err := infer.GeneratorPlans(m.Infer, size, stop.Of(ctx))
		if err == nil { // else the model predicts all the same; Generate says why it does not
			o.Floors, o.Peaks = on.MemoryOf(on.Plan, on.Groups)
			cover(on, &o, plans)
		}
	}
	if t.adapters != nil {
		err = t.besides(ctx, texts, &o)
	}
	return o, err
}

// cover adds the memory of a generator's plans.
func cover(on *session.Session, o *residency.TenantOptions, plans []*partition.Plan) {
	for _, p := range plans {
		floors, peaks := on.MemoryOf(p, planning.Groups{})
		if o.Floors == nil {
			o.Floors, o.Peaks = floors, peaks
		}
		for i := range floors {
			o.Floors[i], o.Peaks[i] = max(o.Floors[i], floors[i]), max(o.Peaks[i], peaks[i])
		}
		o.LargestBytes = max(o.LargestBytes, session.LargestOf(p.Graph))
	}
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

// Close waits for the batches and the tokens under way, and frees the devices' memory. A second call
// does nothing.
func (s *Service) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return errors.Join(s.answers.Close(), s.end())
}

// end gives back the devices.
func (s *Service) end() (err error) {
	err = errors.Join(s.closeRuntimes(), s.trained.release())
	s.leave()
	return err
}

// closeRuntimes frees the memory of the devices.
func (s *Service) closeRuntimes() (err error) {
	for i, rt := range s.rts {
		if rt == nil {
			continue
		}
		closed := rt.Close()
		if s.answers != nil && s.answers.WentOnWithout(i) {
			closed, s.trained.goneOn = executor.Unrelated(closed), true
		}
		err = errors.Join(err, closed)
	}
	s.rts = nil
	return err
}
