package session

import (
	"context"
	"fmt"
	"math"

	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/metrics"
)

// A loss in nats is far above that of guessing beyond farShare times it and farNats; a squared error
// beyond farSquares times it, as first weights alone give two or three times.
const (
	farShare   = 1.5
	farNats    = 0.5
	farSquares = 5
)

// FarAbove warns of a training whose loss at a boundary is far above what guessing gives: that of
// the validation or, where that is none or no better than guessing, that of the steps. It is "" if it is not,
// or where what guessing gives is not known. train is the training part, of which a table's classes are counted.
func (s *Session) FarAbove(ctx context.Context, b *runstate.Boundary, train *datasets.Part) (string, error) {
	most := math.Inf(-1)
	for _, loss := range []*float64{b.TrainLoss, b.ValLoss} {
		if loss != nil {
			most = max(most, *loss)
		}
	}
	if most <= farNats && s.Spec.Loss != "mse" || restore.IsOneBatch(s.Info.Fingerprint) {
		return "", nil
	}
	guess, how, err := s.guessing(ctx, b, train)
	if how == "" || err != nil {
		return "", err
	}
	bound := farShare*guess + farNats
	if s.Spec.Loss == "mse" {
		bound = farSquares * guess
	}
	isFar := func(loss *float64) bool { return loss != nil && *loss > bound }
	name, loss := "validation", b.ValLoss
	if !isFar(loss) {
		if loss != nil && *loss < guess || !isFar(b.TrainLoss) {
			return "", nil
		}
		name, loss = "training", b.TrainLoss
	}
	return fmt.Sprintf("after %d steps the %s loss is %.4g, and %s gives %.4g: look at the learning rate (optimizer.lr: %v) and at %s",
		b.Step, name, *loss, how, guess, s.Config.Optimizer.LR, s.scale()), nil
}

// guessing is the loss of answers that do not look at the sample, and how they are found; "" where
// that is not known.
func (s *Session) guessing(ctx context.Context, b *runstate.Boundary, train *datasets.Part) (guess float64, how string, err error) {
	switch s.Spec.Loss {
	case "mse":
		const mean = "always answering with the mean of the targets"
		if r2 := b.Metrics.Get("r2"); r2 != nil && *r2 < 1 && s.Spec.Terms() == 1 {
			return *b.ValLoss / (1 - *r2), mean, nil
		}
		if s.Info.TargetScaling != nil { // to a variance of 1
			return 1, mean, nil
		}
	case "cross_entropy", "bce":
		if s.Config.Data.Source == "csv" {
			guess, err = train.TargetEntropy(ctx, s.Info)
			return guess, "guessing each class as often as it is in the data", err
		}
		if s.Spec.Loss == "bce" {
			return math.Ln2, "guessing", nil
		}
		n, what := s.Info.Classes, "classes"
		if s.Info.Tokens > 0 && s.Spec.Target.Shape.Rank() > 0 {
			n, what = s.Info.Tokens, "tokens"
		}
		if n > 1 {
			return math.Log(float64(n)), fmt.Sprintf("guessing among %d %s", n, what), nil
		}
	}
	return 0, "", nil
}

// scale is what to look at beside the learning rate.
func (s *Session) scale() string {
	d := s.Config.Data
	switch {
	case d.Source == "csv" && s.Spec.Loss == "mse" && !d.StandardizeTarget:
		return "the scale of the target (data.standardize_target: true)"
	case d.Source == "csv" && !d.Standardize:
		return "the scale of the columns (data.standardize: true)"
	case d.Source == "csv":
		return "outliers in the columns"
	case s.Info.Tokens > 0:
		return "optimizer.clip_norm"
	case len(s.Spec.Input.Shape) == 3:
		return "the scale of the pixels"
	}
	return "the scale of the inputs"
}

// Worse warns of a model that is worse than none; "" if it is not, or there is no such
// metric. stopped says that early stopping has ended, or may have ended, its training.
func (s *Session) Worse(values metrics.Values, stopped bool) string {
	r2 := values.Get("r2")
	if r2 == nil || *r2 >= 0 {
		return ""
	}
	cure := "train for longer, or change the learning rate"
	if stopped { // longer would have been worse
		cure = "the samples may not tell the targets: try fewer weights, or other inputs"
		if s.Config.Data.Source == "csv" && s.Config.Model.Preset == "mlp" {
			cure = "the columns may not tell the targets: try fewer weights (model.hidden: []), or other columns"
		}
	}
	if d := s.Config.Data; d.Source == "csv" && !d.StandardizeTarget {
		cure = "scale the target (data.standardize_target: true)"
	}
	return fmt.Sprintf("the model is worse than always answering with the mean of the targets (R² %.3g; 0 is as good, 1 is perfect): %s", *r2, cure)
}
