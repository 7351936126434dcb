package berth

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/residency/ledger"
)

// history is the values that steps recorded on the devices, pulled back.
type history struct {
	losses boundary.Values
	norms  boundary.Values // of the gradients; nil where they are not computed
	known  int             // norms of steps up to this one are not known
}

// norm is the norm of a step's gradients; nil where there is none, or it is not finite.
func (h history) norm(step int) *float64 {
	if h.norms == nil || step <= h.known {
		return nil
	}
	return finite(h.norms.Of(step))
}

// finite is a number; nil for NaN and infinities, which JSON does not have.
func finite(x float64) *float64 {
	if x-x != 0 {
		return nil
	}
	return &x
}

// pull pulls back the values that metrics are made from.
func (s *session) pull(ctx context.Context, why ledger.Reason) (h history, err error) {
	h.known = max(s.at.Lost, s.at.NormsLost)
	if h.losses, err = s.rings().Pull(ctx, why, models.LossRing); err == nil {
		h.norms, err = s.rings().Pull(ctx, why, models.GradNormRing)
	}
	return h, err
}

// log pulls losses back and logs the steps since the last time, those that are
// due: with log_every 0, all of them at a boundary.
func (s *session) log(ctx context.Context, why ledger.Reason) (history, error) {
	h, err := s.pull(ctx, why)
	if err != nil {
		return h, err
	}
	every := max(1, s.config.Train.LogEvery)
	for step := max(s.at.Logged, s.at.Began, s.at.Lost) + 1; step <= s.at.Step; step++ {
		if step%every != 0 {
			continue
		}
		epoch, inEpoch := s.at.PlaceOf(step, s.sizes.pace)
		err := s.journal.step(Step{
			Step: step, Epoch: epoch, InEpoch: inEpoch, Loss: h.losses.Of(step), LearningRate: s.rate.At(step - 1), GradNorm: h.norm(step),
		})
		if err != nil {
			return h, err
		}
	}
	s.at.Logged = s.at.Step
	s.journal.metrics.Flush()
	return h, nil
}

// measure logs the losses since the boundary before, takes their mean as far as the
// rings have them, and evaluates.
func (s *session) measure(ctx context.Context, e *Boundary) error {
	h, err := s.log(ctx, ledger.Epoch)
	if err != nil {
		return err
	}
	correct, err := s.rings().Pull(ctx, ledger.Epoch, models.CorrectRing)
	if err != nil {
		return err
	}
	first := max(s.at.Began, s.at.Lost)
	e.TrainLoss, e.TrainAccuracy = h.losses.Mean(first, s.at.Step, s.weight), correct.Mean(first, s.at.Step, s.weight)
	if norm := h.norms.Mean(max(first, h.known), s.at.Step, func(int) int { return 1 }); norm != nil {
		e.GradNorm = finite(*norm)
	}
	s.count(e)
	began := time.Now()
	if s.eval != nil {
		score, err := s.evaluate(ctx, s.lastGood)
		if err == nil {
			e.Metrics, err = s.judge.Values(ctx, score)
		}
		if err != nil {
			return err
		}
		e.ValLoss, e.ValAccuracy = &score.Loss, score.Accuracy
		if s.judge.Has("confusion") {
			e.Confusion = score.Collected.Matrix()
		}
	}
	e.At = time.Now()
	e.ValTime = e.At.Sub(began)
	return nil
}

// weight is that of a step among others: the samples of its loss, or the terms where
// samples differ in them.
func (s *session) weight(step int) int {
	epoch, inEpoch := s.at.PlaceOf(step, s.sizes.pace)
	if !s.spec.Lengths {
		return s.sizes.of(inEpoch - 1)
	}
	samples, positions := s.part.Counted(datasets.Cursor{Epoch: epoch, Index: (inEpoch - 1) * s.sizes.batch})
	if s.spec.Target.Shape.Rank() == 0 {
		return int(samples)
	}
	return int(positions)
}

// count counts the samples and the memory so far.
func (s *session) count(e *Boundary) {
	e.Samples, e.Tokens = s.part.Seen(s.at.Cursor())
	if terms := s.spec.Terms(); !s.spec.Lengths && terms > 1 && s.info.Tokens > 0 {
		e.Tokens = e.Samples * int64(terms)
	}
	for i := range s.devs {
		e.DevicePeak = max(e.DevicePeak, s.rt.Memory(i).Peak)
	}
}

// evaluate goes over the validation part. Where the loss is not finite, hint
// says what to do.
func (s *session) evaluate(ctx context.Context, hint func() string) (infer.Score, error) {
	score, err := s.eval.Run(ctx, nil)
	nan := errors.Is(err, ErrNonFinite) || err == nil && (math.IsNaN(score.Loss) || math.IsInf(score.Loss, 0))
	if nan {
		if bad, found := s.badValidation(ctx); found {
			return score, fmt.Errorf("step %d: the validation loss is %w: %v", s.at.Step, ErrNonFinite, bad)
		}
	}
	var at *device.NonFiniteError
	if errors.As(err, &at) { // op by op
		return score, fmt.Errorf("step %d: %w; %s", s.at.Step, err, hint())
	}
	if nan {
		err = fmt.Errorf("step %d: the validation loss is %w; %s", s.at.Step, ErrNonFinite, hint())
	}
	return score, err
}

// inspect shows the observer where the run stands. No step is queued; b are the metrics
// of a boundary, or nil.
func (s *session) inspect(ctx context.Context, b *Boundary) error {
	h, err := s.pull(ctx, ledger.Fetch)
	if err != nil {
		return err
	}
	i := Inspection{Step: s.at.Step, LearningRate: s.rate.At(s.at.Step - 1), Loss: h.losses.Of(s.at.Step), GradNorm: h.norm(s.at.Step), Boundary: b, s: s}
	i.Epoch, i.InEpoch = s.at.PlaceOf(s.at.Step, s.sizes.pace)
	defer func() { i.s = nil }()
	if err := s.opt.Observer.Inspect(ctx, &i); err != nil {
		return &observerError{err}
	}
	return nil
}

// observerError is the error of an observer's function: the run itself is sound.
type observerError struct{ err error }

func (e *observerError) Error() string { return e.err.Error() }

func (e *observerError) Unwrap() error { return e.err }

// endedBy saves where an error is an observer's, and drops ErrEnd.
func endedBy(err error, save func() error) error {
	own, ok := errors.AsType[*observerError](err)
	if !ok {
		return err
	}
	saving := save()
	if errors.Is(own.err, ErrEnd) {
		return saving
	}
	return errors.Join(own.err, saving)
}
