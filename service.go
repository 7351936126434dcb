package berth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/batching"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency/ledger"
)

// ErrBusy is returned by a Service whose queue is full: try again later.
var ErrBusy = errs.Busy

// ServeOptions describes a service. A zero field means its default.
type ServeOptions struct {
	Batch int // most samples of a batch; default 32
	Queue int // most samples that wait for a batch, and most texts that wait for their turn; default 1024
	Texts int // texts that are generated at once, each with caches of its own on the devices; default 4

	// AtOnce has ServeWith fail with ErrOccupied where other users of shared Devices leave
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
	trained  *Trained
	opt      ServeOptions
	rt       *executor.Runtime
	answer   *answering
	queue    *batching.Queue // nil before the weights are loaded
	texts    *texts
	turn     chan struct{} // has one element while no program runs
	done     chan struct{} // closed by Close
	closing  sync.Once
	programs atomic.Int32          // that were compiled
	lost     atomic.Pointer[error] // the loss of a device
	notes    notes
	leave    func()
}

// Serve is ServeWith with the defaults.
func (t *Trained) Serve(ctx context.Context) (*Service, error) {
	return t.ServeWith(ctx, ServeOptions{})
}

// ServeWith copies the weights in, and compiles a program for each size of a batch. Until
// the service is closed, no other method of t is called but those that describe it. The
// caller closes it.
func (t *Trained) ServeWith(ctx context.Context, o ServeOptions) (_ *Service, err error) {
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
	s := &Service{trained: t, opt: o, turn: make(chan struct{}, 1), done: make(chan struct{}), leave: leave}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	if err := s.open(ctx); err != nil {
		return nil, kept(err)
	}
	s.turn <- struct{}{}
	s.queue = batching.New(batching.Options{Batch: o.Batch, Waiting: o.Queue, Run: s.run, Alone: func(err error) bool { return errors.Is(err, ErrNonFinite) }})
	return s, nil
}

// open makes the runtime, loads the weights and compiles the programs.
func (s *Service) open(ctx context.Context) (err error) {
	t := s.trained
	s.texts = newTexts(s)
	needs, err := s.texts.needs(ctx)
	if err != nil {
		return err
	}
	needs.AtOnce = s.opt.AtOnce
	if s.rt, err = t.setup.runtime(ctx, t.setup.devs, t.weights.Dir, needs); err != nil {
		return err
	}
	t.setup.watch(s.rt, nil, func() time.Duration { return leastPatience })
	sizes := batching.Buckets(s.opt.Batch)
	s.answer = newAnswering(t.setup, s.rt)
	s.answer.scaling, s.answer.most = t.setup.info.Scaling, max(mostPredictors, len(sizes))
	for i, n := range sizes {
		p, err := s.answer.predictor(ctx, question{samples: n})
		if err != nil {
			return err
		}
		if s.programs.Add(1); i > 0 {
			continue
		}
		if err := t.load(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// run computes a batch.
func (s *Service) run(b batching.Batch) (out []float32, err error) {
	err = s.inTurn(context.Background(), func() error {
		out, _, err = s.answer.outputs(context.Background(), question{samples: b.Samples}, b.Rows)
		return err
	})
	return out, err
}

// inTurn calls f while no other program runs. It fails with the cause of ctx, or
// ErrClosed, where f is not called.
func (s *Service) inTurn(ctx context.Context, f func() error) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.done:
		return ErrClosed
	}
	defer func() { s.turn <- struct{}{} }()
	err := f()
	s.note()
	if id, lost := executor.LostDevice(err); lost {
		s.lost.CompareAndSwap(nil, &err)
		s.trained.setup.giveUp(s.rt, id, err)
	}
	if failed := s.rt.Resume(); failed != nil {
		s.lost.CompareAndSwap(nil, &failed)
	}
	return err
}

// note takes the warnings of the runtime. It is called in turn.
func (s *Service) note() {
	if text := executor.RefusedText(s.rt.Refused()); text != "" {
		s.notes.add(text)
	}
	for _, failure := range s.rt.Retried() {
		s.notes.add(executor.TryingAgain(failure))
	}
}

// Warnings say what went wrong and did no harm, such as a copy that failed on a device and
// was repeated. Each is returned once; beyond 100, the oldest are dropped.
func (s *Service) Warnings() []string { return s.notes.take() }

// notes are warnings that nobody has read yet. The methods are safe for concurrent use.
type notes struct {
	mu   sync.Mutex
	list []string
	some atomic.Bool // list is not empty
}

// add adds a warning.
func (n *notes) add(text string) {
	const most = 100
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list[max(0, len(n.list)+1-most):], text)
	n.some.Store(true)
}

// take gives the warnings, and forgets them.
func (n *notes) take() []string {
	if !n.some.Load() {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.list
	n.list = nil
	n.some.Store(false)
	return list
}

// Predict computes the model's outputs for samples, a tensor of [n, …]: [n, outputs], and
// [n, positions, outputs] of a sequence. Features of a table, and numbers of an answer, are
// in the unit of the data. Sequences of different lengths have datasets.Padding behind
// their tokens; the positions are those of the largest bucket, with zeros behind a
// sequence's. Outputs of a classifier are probabilities. Where ctx ends first,
// the error is its cause; where too many samples wait, it is ErrBusy.
func (s *Service) Predict(ctx context.Context, samples *tensor.Dense) (*tensor.Dense, error) {
	n, in, err := s.trained.setup.inputsOf(samples)
	if err != nil {
		return nil, err
	}
	out, err := s.outputs(ctx, n, in, nil)
	if err != nil {
		return nil, err
	}
	return s.answer.inUnits(out, n, s.answer.last())
}

// Answers is Predict with an answer for each sample, as [Trained.Predict] gives them: with
// its class, and the class's name. Of a text, it is about the token after the sample's last.
func (s *Service) Answers(ctx context.Context, samples *tensor.Dense) ([]Prediction, error) {
	set := s.trained.setup
	n, in, err := set.inputsOf(samples)
	if err != nil {
		return nil, err
	}
	last := s.answer.last()
	out, err := s.outputs(ctx, n, in, func(i int, numbers []float32) []float32 {
		if set.spec.Lengths && len(numbers) > last { // an answer for each position
			numbers = numbers[:lengthOf(in, n, i)*last]
		}
		return set.answered(infer.Answer{Index: i, Values: numbers, Last: last})
	})
	if err != nil {
		return nil, err
	}
	answers, each := make([]Prediction, n), len(out)/n
	for i := range answers {
		if set.spec.PerPosition() && set.numbered() {
			each = lengthOf(in, n, i) * last
		}
		answers[i] = predictionOf(i, out[:each:each], set)
		out = out[each:]
	}
	return answers, nil
}

// AnswerBytes is the bytes of the Values of a Prediction.
func (s *Service) AnswerBytes() int64 {
	m := s.answer.predictors[question{samples: 1}].Sample()
	if s.trained.setup.numbered() {
		return shape.F32(m...).Bytes()
	}
	return shape.F32(m.Dim(-1)).Bytes()
}

// outputs waits for the model's outputs for n samples, whose bytes are in; pick is the part
// of a sample's outputs that is kept, nil for all.
func (s *Service) outputs(ctx context.Context, n int, in []byte, pick func(int, []float32) []float32) ([]float32, error) {
	out, err := s.queue.Do(ctx, in, len(in)/n, pick)
	switch {
	case errors.Is(err, batching.ErrFull):
		err = ErrBusy
	case errors.Is(err, batching.ErrClosed):
		err = ErrClosed
	}
	return out, err
}

// Used says which weights the service has.
func (s *Service) Used() Used { return s.trained.used }

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

// Stats says what the service has done so far. It does not wait for devices.
func (s *Service) Stats() ServiceStats {
	q := s.queue.Stats()
	st := ServiceStats{Waiting: q.Waiting, Samples: q.Samples, Expired: q.Expired, Batches: map[int]int64{}, Programs: int(s.programs.Load())}
	for i, n := range batching.Buckets(s.opt.Batch) {
		st.Batches[n] = q.Batches[i]
	}
	st.Texts, st.WaitingTexts, st.Tokens = s.texts.stats()
	st.WeightBytes = s.rt.Residency.Ledger().OfUsage(ledger.CopyIn, device.Weight).Bytes
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

// Close waits for the batch and the tokens under way, and frees the devices' memory. Calls
// that wait, texts under way and later calls fail with ErrClosed.
func (s *Service) Close() (err error) {
	s.closing.Do(func() {
		<-s.turn // no program runs any more
		close(s.done)
		s.queue.Close()
		err = s.end()
	})
	return err
}

// end gives back all that the service holds.
func (s *Service) end() (err error) {
	if s.texts != nil {
		err = s.texts.close()
	}
	if s.answer != nil {
		err = errors.Join(err, s.answer.close())
	}
	if s.rt != nil {
		err = errors.Join(err, s.rt.Close())
	}
	err = errors.Join(err, s.trained.release())
	s.leave()
	return err
}
