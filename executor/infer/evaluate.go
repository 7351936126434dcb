package infer

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// Score is a model's loss and accuracy over a part.
type Score struct {
	Loss     float64
	Accuracy *float64 // from 0 to 1; nil for regression
}

// Evaluator computes scores over a part. Sums stay on the device until the end.
type Evaluator struct {
	pass  *pass
	terms int // that the sums are of: samples, times positions of a sequence
}

// NewEvaluator compiles the evaluation of a part.
func NewEvaluator(ctx context.Context, rt *executor.Runtime, m Model, part *datasets.Part) (*Evaluator, error) {
	p, err := newPass(ctx, rt, m, part, executor.LoadOptions{Net: "eval"}, func(z models.Size) (*graph.Graph, error) {
		return models.Eval(m.Spec, z)
	})
	if err != nil {
		return nil, err
	}
	return &Evaluator{p, part.Len() * m.Spec.Terms()}, nil
}

// Init gives the variables their contents, where no program of the runtime has
// them.
func (e *Evaluator) Init(ctx context.Context, contents func(v *graph.Value, dst []byte) error) error {
	return e.pass.prog.Init(ctx, contents)
}

// InitFrom is Init with contents of any kind: see [executor.Program.InitFrom].
func (e *Evaluator) InitFrom(ctx context.Context, c executor.Contents) error {
	return e.pass.prog.InitFrom(ctx, c)
}

// Close unloads the evaluation. The weights stay if another program has them.
func (e *Evaluator) Close() error { return e.pass.prog.Close() }

// Run evaluates the whole part. Afterwards, nothing of it is on a device. It fails
// with [device.ErrNonFinite] where the loss of a batch is not finite.
func (e *Evaluator) Run(ctx context.Context) (s Score, err error) {
	loss, correct := e.pass.prog.Var(models.EvalLoss), e.pass.prog.Var(models.EvalCorrect)
	sums := []*residency.Tensor{loss}
	if correct != nil {
		sums = append(sums, correct)
	}
	zero := make([]byte, 4)
	for _, t := range sums {
		if err := e.pass.rt.Residency.Fill(t, zero); err != nil {
			return s, err
		}
	}
	switch err := e.pass.each(ctx, func(datasets.Batch) error { return nil }); {
	case errors.Is(err, device.ErrNonFinite):
		return s, fmt.Errorf("evaluation: the loss is %w", device.ErrNonFinite)
	case err != nil:
		return s, fmt.Errorf("evaluation: %w", err)
	}
	if s.Loss, err = e.mean(ctx, loss); err != nil {
		return s, err
	}
	if correct != nil {
		share, err := e.mean(ctx, correct)
		if err != nil {
			return s, err
		}
		s.Accuracy = &share
	}
	return s, e.drop(sums)
}

// drop drops the contents of tensors.
func (e *Evaluator) drop(ts []*residency.Tensor) error {
	for _, t := range ts {
		if err := e.pass.rt.Residency.Drop(t); err != nil {
			return err
		}
	}
	return nil
}

// mean is a sum on the device over the number of its terms.
func (e *Evaluator) mean(ctx context.Context, sum *residency.Tensor) (float64, error) {
	v, err := e.pass.rt.Floats(ctx, ledger.Epoch, sum)
	if err != nil {
		return 0, err
	}
	return float64(v[0]) / float64(e.terms), nil
}
