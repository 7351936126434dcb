package berth

import (
	"context"
	"errors"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// Service is a trained model whose weights stay on the devices between calls, to answer
// requests. It is safe for concurrent use.
type Service struct {
	trained *Trained
	rt      *executor.Runtime
	answer  *answering
	turn    chan struct{} // has one element while no call computes
	done    chan struct{} // closed by Close
	leave   func()
}

// Serve copies the weights in, for a service. Until the service is closed, no other
// method of t is called but those that describe it. The caller closes it.
func (t *Trained) Serve(ctx context.Context) (_ *Service, err error) {
	defer func() { err = errors.Join(err, t.loaded()) }()
	if err := t.setup.usable(); err != nil {
		return nil, err
	}
	leave, err := t.setup.keep()
	if err != nil {
		return nil, err
	}
	s := &Service{trained: t, turn: make(chan struct{}, 1), done: make(chan struct{}), leave: leave}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	if s.rt, err = t.setup.runtime(ctx, t.setup.devs, t.weights.Dir, residency.TenantOptions{}); err != nil {
		return nil, err
	}
	t.setup.watch(s.rt, nil, func() time.Duration { return leastPatience })
	s.answer = newAnswering(t.setup, s.rt)
	s.answer.scaling = t.setup.info.Scaling
	first, err := s.answer.predictor(ctx, question{samples: 1})
	if err != nil {
		return nil, err
	}
	if err := t.load(ctx, first); err != nil {
		return nil, kept(err)
	}
	s.turn <- struct{}{}
	return s, nil
}

// Predict computes the model's outputs for samples, a tensor of [n, …]: [n, outputs], and
// [n, positions, outputs] of a sequence. Features of a table, and numbers of an answer, are
// in the unit of the data. Outputs of a classifier are probabilities. Calls take turns: where ctx ends first, the error is its cause.
func (s *Service) Predict(ctx context.Context, samples *tensor.Dense) (*tensor.Dense, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.done:
		return nil, ErrClosed
	}
	defer func() { s.turn <- struct{}{} }()
	out, err := s.answer.answer(ctx, samples)
	if id, lost := lostDevice(err); lost {
		s.trained.setup.giveUp(s.rt, id, err)
	}
	return out, err
}

// Close waits for the call under way, and frees the devices' memory. Later calls fail
// with ErrClosed.
func (s *Service) Close() error {
	select {
	case <-s.turn: // no call has it any more
	case <-s.done:
		return nil
	}
	close(s.done)
	return s.end()
}

// end gives back all that the service holds.
func (s *Service) end() (err error) {
	if s.answer != nil {
		err = s.answer.close()
	}
	if s.rt != nil {
		err = errors.Join(err, s.rt.Close())
	}
	err = errors.Join(err, s.trained.release())
	s.leave()
	return err
}
