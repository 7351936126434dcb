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
	Texts int // texts that each group generates at once
}

// Group is devices that have the whole model, and answer beside other groups.
type Group struct {
	Runtime *executor.Runtime
	Devices []device.ID
	Model   Model // with its cut over the devices
	// Load copies the weights in.
	Load func(ctx context.Context, to Loader) error
	// Lost is told of the loss of a device.
	Lost func(id device.ID, err error)
	// Adapters are models on the same weights, each with an adapter beside them: as many, in the same
	// order, for each group.
	Adapters []Adapted
}

// Adapted is a model on the weights of another, with an adapter beside them.
type Adapted struct {
	Model Model // Infer.Adapter names the adapter
	// Load copies the adapter's weights in. The others are there.
	Load func(ctx context.Context, to Loader) error
}

// Service keeps engines open, one for each group of devices, and answers requests of many goroutines.
// Samples of requests that wait are put together into batches. A batch, or a text, goes to a
// group that is free; a group runs one program at a time. After the loss of a device its group answers nothing more:
// the others compute its batches, and begin again those of its texts that have no token yet.
type Service struct {
	*common
	index  int         // of its engine in each group
	output shape.Shape // of a sample's outputs
	queue  *batching.Queue
}

// common is what the services of a model and of its adapters have together.
type common struct {
	opt      ServiceOptions
	groups   []*group
	all      []*Service // the model's own first, and then those of its adapters
	texts    *texts
	done     chan struct{}         // closed by Close
	lost     atomic.Pointer[error] // the loss of the last group
	losing   sync.Mutex            // held while a group is lost
	warnings warnings
}

// NewService loads the weights, and compiles a program for each size of a batch, on each group and also for each
// adapter. The caller closes the service, and then the runtimes, also after an error.
func NewService(ctx context.Context, list []Group, o ServiceOptions) (_ *Service, err error) {
	c := &common{opt: o, done: make(chan struct{})}
	for _, x := range list {
		c.groups = append(c.groups, newGroup(x, c))
	}
	if err := c.load(ctx); err != nil {
		return nil, errors.Join(err, c.closeEngines())
	}
	c.texts = newTexts(o, c.groups)
	for i, e := range c.groups[0].engines {
		p, err := e.predictor(ctx, question{samples: 1}) // it is there
		if err != nil {
			return nil, errors.Join(err, c.closeEngines())
		}
		c.all = append(c.all, &Service{common: c, index: i, output: p.Sample()})
	}
	for _, g := range c.groups {
		g.turn <- struct{}{}
	}
	for _, s := range c.all {
		q := batching.Options{
			Batch: o.Batch, Waiting: o.Queue, Workers: len(c.groups), Run: s.run, Gone: func(i int) bool { return c.groups[i].left() },
			Alone: func(err error) bool { return errors.Is(err, device.ErrNonFinite) },
		}
		if len(c.groups) > 1 {
			q.Ready = c.ready
		}
		s.queue = batching.New(q)
	}
	return c.all[0], nil
}

// load compiles the programs of all groups, and copies the weights in: to one right after the other, as a run that trains
// may delete them.
func (c *common) load(ctx context.Context) error {
	for _, g := range c.groups {
		if err := g.load(ctx); err != nil {
			return g.failed(err)
		}
	}
	for _, g := range c.groups {
		if err := g.compile(ctx); err != nil {
			return g.failed(err)
		}
	}
	return nil
}

// closeEngines unloads the programs for samples in memory.
func (c *common) closeEngines() (err error) {
	for _, g := range c.groups {
		err = errors.Join(err, g.closed(g.closeEngines()))
	}
	return err
}

// Adapter is the service of Group.Adapters[i], and with -1 that of the model itself. They
// end together.
func (s *Service) Adapter(i int) *Service { return s.all[1+i] }

// model is the service's. It is cut for the first group; the rest of it is that of all.
func (s *Service) model() *Model { return &s.groups[0].engines[s.index].Model }

// ready waits until no other program runs on a group, by index. If it has to wait, it calls others first.
func (c *common) ready(i int, others func()) {
	if g := c.groups[i]; len(g.turn) == 0 {
		others()
		_ = g.settled(context.Background())
	}
}

// run computes a batch.
func (s *Service) run(b batching.Batch) (out []float32, err error) {
	g := s.groups[b.Worker]
	err = g.inTurn(context.Background(), func() error {
		out, _, err = g.engines[s.index].compute(context.Background(), question{samples: b.Samples}, Batch{b.Samples, b.Rows})
		return err
	})
	if err == nil {
		g.batches.Add(1)
		g.samples.Add(int64(b.Real))
	}
	return out, err
}

// Weights copies variables of the service's model to the host, by name.
func (s *Service) Weights(ctx context.Context, wanted func(v *graph.Value) bool) (contents map[string][]byte, err error) {
	for _, g := range s.groups { // where one is lost meanwhile, another has the same
		if contents, err = s.weightsOn(ctx, g, wanted); err == nil || !g.left() {
			break
		}
	}
	return contents, err
}

// weightsOn is Weights of a group.
func (s *Service) weightsOn(ctx context.Context, g *group, wanted func(v *graph.Value) bool) (contents map[string][]byte, err error) {
	contents = map[string][]byte{}
	err = g.inTurn(ctx, func() error {
		p, err := g.engines[s.index].predictor(ctx, question{samples: 1})
		if err != nil {
			return err
		}
		resident := g.Runtime.Residency
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
	return s.model().inUnits(out, b.Samples, s.last()), out, nil
}

// last is the length of the last axis of answers.
func (s *Service) last() int { return s.output.Dim(-1) }

// Answers is Predict with an answer for each sample, with its class.
func (s *Service) Answers(ctx context.Context, b Batch) ([]Prediction, error) {
	m, last := s.model(), s.last()
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
	if !s.model().Classifies() {
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
	Programs     int           // that were compiled; each copy of the weights has its own, which are not counted again
	WeightBytes  int64         // of weights that were copied to the devices since Serve
	Groups       []GroupStats  // of the devices of each copy of the weights, which compute at the same time
}

// GroupStats counts what the devices of one copy of the weights have done.
type GroupStats struct {
	Devices     []device.ID
	Batches     int64
	Samples     int64
	Texts       int   // that are being generated
	Tokens      int64 // that were generated
	WeightBytes int64 // of weights that were copied to the devices since Serve
	Lost        error // why it answers nothing any more; nil while it does
}

// Stats says what the service has done so far, with all of its adapters. It does not wait for
// devices.
func (s *Service) Stats() ServiceStats {
	st := ServiceStats{Batches: map[int]int64{}}
	for _, x := range s.all {
		q := x.queue.Stats()
		st.Waiting, st.Samples, st.Expired = st.Waiting+q.Waiting, st.Samples+q.Samples, st.Expired+q.Expired
		for i, n := range batching.Buckets(s.opt.Batch) {
			st.Batches[n] += q.Batches[i]
		}
	}
	for _, g := range s.groups {
		x := g.stats()
		x.Texts, x.Tokens = s.texts.of(g)
		st.Texts, st.Tokens, st.WeightBytes = st.Texts+x.Texts, st.Tokens+x.Tokens, st.WeightBytes+x.WeightBytes
		st.Programs = max(st.Programs, int(g.programs.Load()))
		st.Groups = append(st.Groups, x)
	}
	st.WaitingTexts = s.texts.waits()
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

// Close waits for the batches and the tokens under way, and unloads all programs. Calls
// that wait, texts under way and later calls fail with errs.ErrClosed, also those of adapters. It
// is called once.
func (s *Service) Close() (err error) {
	for _, g := range s.groups {
		<-g.turn // no program runs there any more
	}
	close(s.done)
	for _, x := range s.all {
		x.queue.Close()
	}
	for _, g := range s.groups {
		err = errors.Join(err, g.closed(g.closeTexts()))
	}
	return errors.Join(err, s.closeEngines())
}
