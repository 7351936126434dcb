package answer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/batching"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency/ledger"
)

// ServiceOptions describes a service.
type ServiceOptions struct {
	Batch int // most samples of a batch
	Queue int // most samples that wait for a batch, and most texts that wait for their turn
	Texts int // texts that are generated at once
	// Load copies the weights in.
	Load func(ctx context.Context, to Loader) error
	// Lost is told of the loss of a device.
	Lost func(id device.ID, err error)
	// Adapters are models on the same weights, each with an adapter beside them.
	Adapters []Adapted
}

// Adapted is a model on the weights of another, with an adapter beside them.
type Adapted struct {
	Model Model // Infer.Adapter names the adapter
	// Load copies the adapter's weights in. The others are there.
	Load func(ctx context.Context, to Loader) error
}

// Service keeps an engine open, and answers requests of many goroutines. Samples of
// requests that wait are put together into batches; one program runs at a time.
type Service struct {
	*common
	engine *Engine
	output shape.Shape // of a sample's outputs
	queue  *batching.Queue
}

// common is what the services of a model and of its adapters have together.
type common struct {
	opt      ServiceOptions
	all      []*Service // the model's own first, and then those of ServiceOptions.Adapters
	texts    *texts
	turn     chan struct{}         // has one element while no program runs
	done     chan struct{}         // closed by Close
	programs atomic.Int32          // that were compiled
	lost     atomic.Pointer[error] // the loss of a device
	warnings warnings
}

// NewService loads the weights, and compiles a program for each size of a batch, also for each
// adapter. The caller closes the service, and then the runtime, also after an error.
func NewService(ctx context.Context, rt *executor.Runtime, m Model, o ServiceOptions) (_ *Service, err error) {
	c := &common{opt: o, turn: make(chan struct{}, 1), done: make(chan struct{}), texts: newTexts(o)}
	err = c.add(ctx, rt, m, o.Load)
	for _, a := range o.Adapters {
		if err == nil {
			err = c.add(ctx, rt, a.Model, a.Load)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.closeEngines())
	}
	c.turn <- struct{}{}
	for _, s := range c.all {
		s.queue = batching.New(batching.Options{Batch: o.Batch, Waiting: o.Queue, Run: s.run, Alone: func(err error) bool { return errors.Is(err, device.ErrNonFinite) }})
	}
	return c.all[0], nil
}

// add compiles the programs of another model, and loads its weights.
func (c *common) add(ctx context.Context, rt *executor.Runtime, m Model, load func(context.Context, Loader) error) error {
	if m.Info.Chat != nil { // each request of messages renders it
		info := *m.Info
		info.Chat = info.Chat.Parsed()
		m.Info = &info
	}
	sizes := batching.Buckets(c.opt.Batch)
	s := &Service{common: c, engine: NewEngine(rt, m, EngineOptions{Load: load, Raw: true, Keep: max(8, len(sizes))})}
	c.all = append(c.all, s)
	for _, n := range sizes {
		p, err := s.engine.predictor(ctx, question{samples: n})
		if err != nil {
			return err
		}
		s.output = p.Sample()
		c.programs.Add(1)
	}
	return nil
}

// closeEngines unloads the programs for samples in memory.
func (c *common) closeEngines() (err error) {
	for _, s := range c.all {
		err = errors.Join(err, s.engine.Close())
	}
	return err
}

// Adapter is the service of ServiceOptions.Adapters[i], and with -1 that of the model itself. They
// end together.
func (s *Service) Adapter(i int) *Service { return s.all[1+i] }

// run computes a batch.
func (s *Service) run(b batching.Batch) (out []float32, err error) {
	err = s.inTurn(context.Background(), func() error {
		out, _, err = s.engine.compute(context.Background(), question{samples: b.Samples}, Batch{b.Samples, b.Rows})
		return err
	})
	return out, err
}

// inTurn calls f while no other program runs. It fails with the cause of ctx, or
// errs.ErrClosed, where f is not called.
func (s *Service) inTurn(ctx context.Context, f func() error) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.done:
		return errs.ErrClosed
	}
	defer func() { s.turn <- struct{}{} }()
	err := f()
	s.note()
	if id, lost := executor.LostDevice(err); lost {
		s.lost.CompareAndSwap(nil, &err)
		s.opt.Lost(id, err)
	}
	if failed := s.engine.rt.Resume(); failed != nil {
		s.lost.CompareAndSwap(nil, &failed)
	}
	return err
}

// note takes the warnings of the runtime. It is called in turn.
func (s *Service) note() {
	if text := executor.RefusedText(s.engine.rt.Refused()); text != "" {
		s.warnings.add(text)
	}
	for _, failure := range s.engine.rt.Retried() {
		s.warnings.add(executor.TryingAgain(failure))
	}
}

// Weights copies variables of the service's model to the host, by name.
func (s *Service) Weights(ctx context.Context, wanted func(v *graph.Value) bool) (contents map[string][]byte, err error) {
	contents = map[string][]byte{}
	err = s.inTurn(ctx, func() error {
		p, err := s.engine.predictor(ctx, question{samples: 1})
		if err != nil {
			return err
		}
		resident := s.engine.rt.Residency
		for _, v := range p.Program().Graph().Vars {
			if !wanted(v) {
				continue
			}
			t := p.Program().Var(v.Name)
			if err := resident.PullBack(ctx, ledger.Fetch, t); err != nil {
				return err
			}
			if err := resident.View(t, func(b []byte) error { contents[v.Name] = slices.Clone(b); return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	return contents, err
}

// Warnings say what went wrong and did no harm, such as a copy that failed on a device and
// was repeated. Each is returned once; beyond 100, the oldest are dropped.
func (s *Service) Warnings() []string { return s.warnings.take() }

// warnings are lines that nobody has read yet. The methods are safe for concurrent use.
type warnings struct {
	mu   sync.Mutex
	list []string
	some atomic.Bool // list is not empty
}

// add adds one, and drops the oldest beyond 100.
func (w *warnings) add(text string) {
	const most = 100
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list[max(0, len(w.list)+1-most):], text)
	w.some.Store(true)
}

// take gives the warnings, and forgets them.
func (w *warnings) take() []string {
	if !w.some.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	w.some.Store(false)
	return list
}

// Predict computes the model's outputs for samples, in the unit of the data: a tensor of
// [n, outputs], or of a sequence [n, positions, outputs].
func (s *Service) Predict(ctx context.Context, b Batch) (shape.Meta, []float32, error) {
	out, err := s.outputs(ctx, b, nil)
	if err != nil {
		return shape.Meta{}, nil, err
	}
	return s.engine.Model.inUnits(out, b.Samples, s.last()), out, nil
}

// last is the length of the last axis of answers.
func (s *Service) last() int { return s.output.Dim(-1) }

// Answers is Predict with an answer for each sample, with its class.
func (s *Service) Answers(ctx context.Context, b Batch) ([]Prediction, error) {
	m, last := &s.engine.Model, s.last()
	out, err := s.outputs(ctx, b, func(i int, numbers []float32) []float32 {
		if m.Infer.Spec.Lengths && len(numbers) > last { // an answer for each position
			numbers = numbers[:b.length(i)*last]
		}
		return m.answered(infer.Answer{Index: i, Values: numbers, Last: last})
	})
	if err != nil {
		return nil, err
	}
	answers, each := make([]Prediction, b.Samples), len(out)/b.Samples
	for i := range answers {
		if m.Infer.Spec.PerPosition() && !m.Classifies() {
			each = b.length(i) * last
		}
		answers[i] = m.prediction(i, out[:each:each])
		out = out[each:]
	}
	return answers, nil
}

// AnswerBytes is the bytes of the Values of a Prediction.
func (s *Service) AnswerBytes() int64 {
	if !s.engine.Model.Classifies() {
		return shape.F32(s.output...).Bytes()
	}
	return shape.F32(s.last()).Bytes()
}

// outputs waits for the model's outputs; pick is the part of a sample's outputs that is
// kept, nil for all.
func (s *Service) outputs(ctx context.Context, b Batch, pick func(int, []float32) []float32) ([]float32, error) {
	out, err := s.queue.Do(ctx, b.rows, len(b.rows)/b.Samples, pick)
	switch {
	case errors.Is(err, batching.ErrFull):
		err = errs.ErrBusy
	case errors.Is(err, batching.ErrClosed):
		err = errs.ErrClosed
	}
	return out, err
}

// ServiceStats counts what a service has done.
type ServiceStats struct {
	Waiting      int           // samples that wait for a batch
	Samples      int64         // that were computed
	Batches      map[int]int64 // by size: the samples of a batch, rounded up to 1, 2, 4, …
	Expired      int64         // calls of Predict and Answers that ended before all of their samples were in a batch
	Texts        int           // that are being generated
	WaitingTexts int           // that wait for their turn
	Tokens       int64         // that were generated
	Programs     int           // that were compiled
	WeightBytes  int64         // of weights that were copied to the devices since Serve
}

// Stats says what the service has done so far, with all of its adapters. It does not wait for
// devices.
func (s *Service) Stats() ServiceStats {
	st := ServiceStats{Batches: map[int]int64{}, Programs: int(s.programs.Load())}
	for _, x := range s.all {
		q := x.queue.Stats()
		st.Waiting, st.Samples, st.Expired = st.Waiting+q.Waiting, st.Samples+q.Samples, st.Expired+q.Expired
		for i, n := range batching.Buckets(s.opt.Batch) {
			st.Batches[n] += q.Batches[i]
		}
	}
	st.Texts, st.WaitingTexts, st.Tokens = s.texts.stats()
	st.WeightBytes = s.engine.rt.Residency.Ledger().OfUsage(ledger.CopyIn, device.Weight).Bytes
	return st
}

// Err is the loss of a device after which the service answers nothing, nil before: close
// it, and open another.
func (s *Service) Err() error {
	if e := s.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// Close waits for the batch and the tokens under way, and unloads all programs. Calls
// that wait, texts under way and later calls fail with errs.ErrClosed, also those of adapters. It
// is called once.
func (s *Service) Close() error {
	<-s.turn // no program runs any more
	close(s.done)
	for _, x := range s.all {
		x.queue.Close()
	}
	return errors.Join(s.texts.close(), s.closeEngines())
}
