package berth

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/residency"
)

// What answers consist of.
type (
	// GenerateOptions describes a text to generate.
	GenerateOptions = answer.GenerateOptions
	// Piece is a piece of a text that is generated.
	Piece = answer.Piece
	// Generation describes a text that was generated.
	Generation = answer.Generation
	// Evaluation is a model's loss and metrics over a part of the data.
	Evaluation = answer.Evaluation
	// ClassResult judges the answers about one class.
	ClassResult = answer.ClassResult
	// Prediction is the model's answer for one sample.
	Prediction = answer.Prediction
	// LostDevice is a device that was lost in an evaluation.
	LostDevice = answer.LostDevice
)

// Why a text ended: the values of Generation.End.
const (
	EndTokens    = answer.EndTokens    // it has GenerateOptions.Tokens
	EndContext   = answer.EndContext   // the context is full
	EndStop      = answer.EndStop      // one of GenerateOptions.Stop came
	EndOfText    = answer.EndOfText    // the token came that separates documents
	EndCancelled = answer.EndCancelled // the call was cancelled, or its emit failed
)

// Generate is [Trained.Generate] with a checkpoint of this run's model, or a file of
// weights.
func (r *Run) Generate(ctx context.Context, w Weights, o GenerateOptions, emit func(Piece) error) (Generation, error) {
	t, err := r.trained(ctx, w)
	if err != nil {
		return Generation{}, err
	}
	return t.Generate(ctx, o, emit)
}

// Generate continues a text with a model of texts, and hands over each piece as soon as
// it is there. emit's error ends it. When ctx is cancelled it ends with the operation under
// way, and ErrStopped; text that was held back, since a Stop might have begun, is handed
// over before.
func (t *Trained) Generate(ctx context.Context, o GenerateOptions, emit func(Piece) error) (res Generation, err error) {
	defer func() { err = errors.Join(err, t.release()) }()
	if err := t.setup.usable(); err != nil {
		return res, err
	}
	m := t.setup.trainedModel()
	text, err := m.NewText(ctx, o, emit)
	if err != nil {
		return res, err
	}
	needs, err := t.setup.textNeeds(ctx, m, text.Size())
	if err != nil {
		return res, err
	}
	leave, err := t.setup.enter()
	if err != nil {
		return res, err
	}
	defer leave()
	t.losses = nil
	err = t.onceWith(ctx, needs, func(rt *executor.Runtime) error { return t.engine(rt, true).Generate(ctx, text) })
	t.ended = err == nil
	res = text.Result()
	res.Weights = t.used
	return res, text.Ended(ctx, err)
}

// textNeeds is the memory for generating a text.
func (s *setup) textNeeds(ctx context.Context, m answer.Model, size infer.GeneratorOptions) (o residency.TenantOptions, err error) {
	plan, err := infer.GeneratorPlan(m.Infer, size, stopOf(ctx))
	if err != nil {
		return o, s.placed(err)
	}
	o.Floors, o.Peaks = s.memoryOf(plan, groups{})
	o.LargestBytes = largestOf(plan.Graph)
	return o, nil
}
