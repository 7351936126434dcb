package trained

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/errs"
)

// OfRun answers on the devices of a training, with its plan and its data, and with a checkpoint
// of its model or a file of weights.
type OfRun struct {
	Session *session.Session
	Data    *datasets.Dataset
}

// Eval is [Model.Eval].
func (r OfRun) Eval(ctx context.Context, w rundir.Weights) (answer.Evaluation, error) {
	t, err := r.model(ctx, w)
	if err != nil {
		return answer.Evaluation{}, err
	}
	return t.Eval(ctx)
}

// EvalTest is [Model.EvalTest].
func (r OfRun) EvalTest(ctx context.Context, w rundir.Weights) (answer.Evaluation, error) {
	t, err := r.model(ctx, w)
	if err != nil {
		return answer.Evaluation{}, err
	}
	return t.EvalTest(ctx)
}

// Predict is [Model.Predict].
func (r OfRun) Predict(ctx context.Context, w rundir.Weights, path string, emit func(answer.Prediction) error) (checkpoint.Used, error) {
	t, err := r.model(ctx, w)
	if err != nil {
		return checkpoint.Used{}, err
	}
	return t.Predict(ctx, path, emit)
}

// Generate is [Model.Generate].
func (r OfRun) Generate(ctx context.Context, w rundir.Weights, o answer.GenerateOptions, emit func(answer.Piece) error) (answer.Generation, error) {
	t, err := r.model(ctx, w)
	if err != nil {
		return answer.Generation{}, err
	}
	return t.Generate(ctx, o, emit)
}

// model is the training's model with other weights, for one call.
func (r OfRun) model(ctx context.Context, w rundir.Weights) (*Model, error) {
	if err := r.Session.Usable(); err != nil {
		return nil, err
	}
	if r.Session.Crew() != nil {
		return nil, fmt.Errorf("%w: several processes train together, and do no more than that: call OpenTrained in one process", errs.ErrOptions)
	}
	w.Dir = osfile.Resolve(w.Dir)
	s := *r.Session
	s.Spec.Averaged = nil // a checkpoint that is found has the averages under the parameters' names
	t := &Model{session: &s, config: r.Session.Config, weights: w, used: checkpoint.Used{File: w.Init}, data: r.Data, ofRun: true}
	if w.Init != "" {
		return t, nil
	}
	if err := t.pick(ctx); err != nil {
		return nil, err
	}
	if err := t.suits(); err != nil {
		return nil, errors.Join(err, t.release())
	}
	return t, nil
}
