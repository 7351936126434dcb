package berth

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/residency/ledger"
)

// rings are the losses and hits that steps recorded on the devices.
func (s *session) rings() boundary.Rings {
	return boundary.Rings{Runtime: s.rt, Program: s.prog}
}

// log pulls losses back and logs the steps since the last time, those that are
// due: with log_every 0, all of them at a boundary.
func (s *session) log(ctx context.Context, why ledger.Reason) error {
	every, first := max(1, s.config.Train.LogEvery), max(s.at.Logged, s.at.Began, s.at.Lost)
	err := s.rings().Each(ctx, why, models.LossRing, first, s.at.Step, func(step int, loss float64) error {
		if step%every != 0 {
			return nil
		}
		epoch, inEpoch := s.at.PlaceOf(step, s.sizes.pace)
		return s.journal.step(Step{Step: step, Epoch: epoch, InEpoch: inEpoch, Loss: loss})
	})
	if err != nil {
		return err
	}
	s.at.Logged = s.at.Step
	s.journal.metrics.Flush()
	return nil
}

// measure logs the losses since the boundary before, takes their mean as far as the
// rings have them, and evaluates.
func (s *session) measure(ctx context.Context, e *Boundary) (err error) {
	if err := s.log(ctx, ledger.Epoch); err != nil {
		return err
	}
	first, samples := max(s.at.Began, s.at.Lost), func(step int) int {
		_, inEpoch := s.at.PlaceOf(step, s.sizes.pace)
		return s.sizes.of(inEpoch - 1)
	}
	if e.TrainLoss, err = s.rings().Mean(ctx, models.LossRing, first, s.at.Step, samples); err != nil {
		return err
	}
	if e.TrainAccuracy, err = s.rings().Mean(ctx, models.CorrectRing, first, s.at.Step, samples); err != nil {
		return err
	}
	if s.eval == nil {
		return nil
	}
	score, err := s.evaluate(ctx, s.lastGood)
	e.ValLoss, e.ValAccuracy = &score.Loss, score.Accuracy
	return err
}

// evaluate goes over the validation part. Where the loss is not finite, hint
// says what to do.
func (s *session) evaluate(ctx context.Context, hint func() string) (infer.Score, error) {
	score, err := s.eval.Run(ctx)
	if errors.Is(err, ErrNonFinite) || err == nil && (math.IsNaN(score.Loss) || math.IsInf(score.Loss, 0)) {
		err = fmt.Errorf("step %d: the validation loss is %w; %s", s.at.Step, ErrNonFinite, hint())
	}
	return score, err
}
